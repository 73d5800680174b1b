//! `null` for a field means the same as omitting it, as it does after the API server has pruned it.

use serde::{Deserialize, Deserializer};

pub(super) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
