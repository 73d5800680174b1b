//! The two versions of `APIExport` and `APIBinding`, and the conversion between them.
//!
//! `v1alpha2` is stored. Values that one version cannot express are kept in annotations of the other, so that a client
//! of the older version loses nothing, not even the order. Pure.

use serde_json::Value;

mod binding;
mod claims;
mod export;
mod lists;

pub(crate) use lists::ConvertError;

/// The older version; the other one is stored.
pub(crate) const OLD: &str = "apis.kcp.io/v1alpha1";
pub(crate) const STORED: &str = "apis.kcp.io/v1alpha2";

/// Converts an object of kind `APIExport` or `APIBinding` to the stored version. Objects of other kinds, or in that
/// version already, stay as they are.
pub(crate) fn to_stored(object: &mut Value) -> Result<(), ConvertError> {
    if object["apiVersion"] != OLD {
        return Ok(());
    }
    match object["kind"].as_str() {
        Some("APIExport") => export::to_stored(object)?,
        Some("APIBinding") => binding::to_stored(object)?,
        _ => return Ok(()),
    }
    object["apiVersion"] = STORED.into();
    Ok(())
}

/// Converts a stored object to the older version. Other kinds and versions stay as they are.
pub(crate) fn to_old(object: &mut Value) -> Result<(), ConvertError> {
    if object["apiVersion"] != STORED {
        return Ok(());
    }
    match object["kind"].as_str() {
        Some("APIExport") => export::to_old(object)?,
        Some("APIBinding") => binding::to_old(object)?,
        _ => return Ok(()),
    }
    object["apiVersion"] = OLD.into();
    Ok(())
}

#[cfg(test)]
mod tests;
