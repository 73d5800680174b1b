//! The hashes in names, labels and keys.

use sha1::{Digest, Sha1};
use sha3::Sha3_256;

/// The length of short hashes.
pub const SHORT: usize = 20;

/// SHA-1 in hex, 40 characters.
pub fn sha1_hex(data: &str) -> String {
    hex(&Sha1::digest(data.as_bytes()))
}

/// The first 20 characters of the SHA-1.
pub fn sha1_short(data: &str) -> String {
    let mut text = sha1_hex(data);
    text.truncate(SHORT);
    text
}

/// SHA3-256 in hex, 64 characters.
pub fn sha3_hex(data: &str) -> String {
    hex(&Sha3_256::digest(data.as_bytes()))
}

/// The first 20 characters of the SHA3-256.
pub fn sha3_short(data: &str) -> String {
    let mut text = sha3_hex(data);
    text.truncate(SHORT);
    text
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|nibble| char::from(DIGITS[usize::from(nibble)]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_contract() {
        assert_eq!(
            sha1_hex("my-test-thing"),
            "c346c8ceb5d104cc783d09b95e8ea7032c190948"
        );
        assert_eq!(
            sha1_hex("default"),
            "7505d64a54e061b7acd54ccd58b49dc43500b635"
        );
        assert_eq!(sha1_short("default"), "7505d64a54e061b7acd5");
        assert_eq!(sha3_short("a"), "80084bf2fba02475726f");
        assert_eq!(sha3_short(""), "a7ffc6f8bf1ed76651c1");
        assert_eq!(sha3_hex("").len(), 64);
    }
}
