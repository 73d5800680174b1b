//! The names that kcp derives by hashing: cluster ids, claim labels, home clusters, names of bindings.
//!
//! Each is a SHA-224 digest, interpreted as a big-endian number and written in base 36 or 62. Pure: the caller passes
//! the randomness.

use sha2::{Digest, Sha224};

use crate::catalog::Stage;

/// The prefix of the label for an accepted permission claim on the claimed object.
pub(crate) const CLAIM_LABEL_PREFIX: &str = "claimed.internal.apis.kcp.io/";
/// The label of a binding with the hash of its export.
pub(crate) const EXPORT_LABEL: &str = "internal.apis.kcp.io/export";

const BASE62: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
const BASE36: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";

/// The digits of a big-endian number; none for zero or an empty number.
fn digits(number: &[u8], alphabet: &[u8]) -> String {
    let base = alphabet.len();
    let mut rest = number.to_vec();
    let mut reversed = Vec::new();
    while rest.iter().any(|byte| *byte != 0) {
        let mut remainder = 0usize;
        for byte in &mut rest {
            let value = remainder * 256 + usize::from(*byte);
            // The remainder is below the base, so the quotient is below 256.
            *byte = u8::try_from(value / base).unwrap_or(u8::MAX);
            remainder = value % base;
        }
        reversed.push(char::from(alphabet[remainder]));
    }
    reversed.iter().rev().collect()
}

fn sha224(text: &[u8]) -> [u8; 28] {
    Sha224::digest(text).into()
}

fn base62(text: &str) -> String {
    digits(&sha224(text.as_bytes()), BASE62)
}

/// One `0` for each leading zero byte, then the digits.
fn base36_padded(number: &[u8]) -> String {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    "0".repeat(zeros) + &digits(number, BASE36)
}

/// The id of a new logical cluster: exactly 16 characters of `[0-9a-z]`, because naming templates of agents render the
/// length.
pub(crate) fn cluster_id(entropy: &[u8; 32]) -> String {
    let mut id = base36_padded(&sha224(entropy));
    while id.len() < 16 {
        id.insert(0, '0');
    }
    id.truncate(16);
    id
}

/// The id of a user's home cluster.
pub(crate) fn home_cluster(user: &str) -> String {
    base36_padded(&sha224(user.as_bytes())[..8])
}

/// The value of the annotation that names a workspace's shard.
pub(crate) fn shard_hash(shard: &str) -> String {
    let mut hash = digits(&sha224(shard.as_bytes()), BASE36);
    hash.truncate(8);
    hash
}

/// The hash of an export's name in labels: `<cluster id>:<export name>`.
pub(crate) fn export_hash(cluster: &str, export: &str) -> String {
    base62(&format!("{cluster}:{export}"))
}

/// The label key that marks objects claimed by an export.
pub(crate) fn claim_label_key(cluster: &str, export: &str) -> String {
    format!("{CLAIM_LABEL_PREFIX}{}", export_hash(cluster, export))
}

/// The label value of one claim: its resource and identity.
pub(crate) fn claim_label_value(group: &str, resource: &str, identity: &str) -> String {
    base62(&claim_json(group, resource, identity))
}

/// The claim as compact JSON with its own order of fields, for the hash.
fn claim_json(group: &str, resource: &str, identity: &str) -> String {
    let quote = |text: &str| serde_json::Value::from(text).to_string();
    let mut fields = Vec::new();
    if !group.is_empty() {
        fields.push(format!("\"group\":{}", quote(group)));
    }
    fields.push(format!("\"resource\":{},\"verbs\":null", quote(resource)));
    if !identity.is_empty() {
        fields.push(format!("\"identityHash\":{}", quote(identity)));
    }
    format!("{{{}}}", fields.join(","))
}

/// The constant label value of a binding for its own export.
pub(crate) fn reflexive_claim_value() -> String {
    let raw: Vec<u8> = (0..28u8).map(|n| n % 10).collect();
    digits(&raw, BASE62)
}

/// The name of a binding that a workspace type requires: the export's name and five characters.
pub(crate) fn default_binding_name(cluster: &str, export_path: &str, export: &str) -> String {
    let mut suffix = base62(&format!("{cluster}|{export_path}|{export}")).to_lowercase();
    suffix.truncate(5);
    format!("{export}-{suffix}")
}

/// The prefix of labels on logical clusters that wait for initializers or terminators.
pub(crate) fn stage_prefix(stage: Stage) -> &'static str {
    match stage {
        Stage::Initializing => "initializer.internal.kcp.io/",
        Stage::Terminating => "terminator.internal.kcp.io/",
    }
}

/// The label on logical clusters that wait for an initializer or a terminator.
pub(crate) fn stage_label(stage: Stage, name: &str) -> (String, String) {
    let mut hash = base36_padded(&sha224(name.as_bytes()));
    let value = hash.clone();
    hash.truncate(56);
    (format!("{}{hash}", stage_prefix(stage)), value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(found: impl AsRef<str>, expected: &str) {
        assert_eq!(found.as_ref(), expected);
    }

    #[test]
    fn exports_are_named_by_the_known_hashes() {
        check(
            export_hash("root", "tenancy.kcp.io"),
            "bmCdly9xXiUpEHe3ypvDwvXMTfoVZUE92mqAQf",
        );
        check(
            export_hash("abcd1234", "my-export"),
            "phGj1BkmdNY3LKTrtFc1KGLYTBs8Nt50p8PIU",
        );
    }

    #[test]
    fn claims_are_named_by_the_known_hashes() {
        for (group, resource, identity, expected) in [
            (
                "",
                "configmaps",
                "",
                "3QVjs6pfBjMpLEVYYhysJnroYGsQGlWm05E4qe",
            ),
            (
                "",
                "namespaces",
                "",
                "4cL2J00WaeDbgQZyTP0B3usZwJbanHloGndI7P",
            ),
            ("", "events", "", "6wBCe82Znnoj6Q9mzomQQpfSdtDfiATwZW1ePT"),
            ("", "secrets", "", "ctwrJRvMX7cX8wwk40Lz00UjJhYxPWE3TpN1lu"),
            (
                "core.kcp.io",
                "logicalclusters",
                "",
                "UyAMVlAwqbvOxopXfyelflRzShqUBuPkFnZkA",
            ),
            (
                "apps",
                "deployments",
                "deadbeef",
                "4CpOMiJ5JL9ZC4cG8ne7nGNQbSOEUiwZ89KHal",
            ),
        ] {
            check(claim_label_value(group, resource, identity), expected);
        }
    }

    #[test]
    fn the_reflexive_value_is_the_known_constant() {
        check(
            reflexive_claim_value(),
            "LstvmbbzVDDOn90ZbhzSQO5U3DMCf88h1pZ",
        );
    }

    #[test]
    fn shards_and_home_clusters_have_the_known_hashes() {
        check(shard_hash("root"), "1pfxsevk");
        check(home_cluster("alice"), "v1u4alow0iv9");
        check(home_cluster("bob"), "2okdry95y5lkv");
        check(home_cluster(""), "36ks9xj4a2n61");
        check(home_cluster("user172"), "0f9mt7goyif7");
    }

    #[test]
    fn cluster_ids_have_sixteen_characters_whatever_the_entropy() {
        for seed in 0..=255u8 {
            let id = cluster_id(&[seed; 32]);
            assert_eq!(id.len(), 16);
            assert!(
                id.bytes()
                    .all(|b| b.is_ascii_digit() || b.is_ascii_lowercase())
            );
        }
        assert_ne!(cluster_id(&[1; 32]), cluster_id(&[2; 32]));
    }

    #[test]
    fn default_bindings_are_named_by_export_and_five_characters() {
        let name = default_binding_name("2vkmp8gkh3m5bh3q", "root", "tenancy.kcp.io");
        let suffix = name.strip_prefix("tenancy.kcp.io-").unwrap();
        assert_eq!(suffix.len(), 5);
        assert!(
            suffix
                .bytes()
                .all(|b| b.is_ascii_digit() || b.is_ascii_lowercase())
        );
    }
}
