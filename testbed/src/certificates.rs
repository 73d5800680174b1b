//! A certificate authority of one cluster: its serving certificate, and client certificates for any
//! user and groups. Knows X.509, not Kubernetes.

use std::net::Ipv4Addr;

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, SanType, SigningKey as _,
};

/// A certificate and its private key, both PEM.
pub(crate) struct Certified {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// The authority.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Result<Self> {
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, "testbed");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)
            .context("making a certificate authority")?;
        Ok(Self { issuer })
    }

    pub(crate) fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// For a server on 127.0.0.1 that is also called by `names`.
    pub(crate) fn server(&self, names: &[&str]) -> Result<Certified> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, "server");
        params
            .subject_alt_names
            .push(SanType::IpAddress(Ipv4Addr::LOCALHOST.into()));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = params
            .signed_by(&key, &self.issuer)
            .context("signing a server")?;
        Ok(Certified {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }

    /// For a user: the common name is the user's, each organisation a group.
    pub(crate) fn client(&self, user: &str, groups: &[&str]) -> Result<Certified> {
        let mut params = CertificateParams::default();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        let draft = params
            .signed_by(&key, &self.issuer)
            .context("signing a user")?;
        let certificate = self.resign(draft.der(), &der::name(user, groups))?;
        Ok(Certified {
            certificate: pem(&certificate),
            key: key.serialize_pem(),
        })
    }

    /// The certificate again, with another subject: rcgen's names hold each attribute once, and a
    /// user with several groups has several organisations.
    fn resign(&self, draft: &[u8], subject: &[u8]) -> Result<Vec<u8>> {
        // The to-be-signed part: version, serial, algorithm, issuer, validity, subject, ...
        const SUBJECT: usize = 5;
        let parts = der::children(draft)?;
        ensure!(parts.len() == 3, "a certificate has three parts");
        let mut fields = der::children(parts[0])?;
        ensure!(fields.len() > SUBJECT, "a certificate has a subject");
        fields[SUBJECT] = subject;
        let body = der::tlv(der::SEQUENCE, &fields.concat());
        let signature = self.issuer.key().sign(&body).context("signing a user")?;
        let signature = der::tlv(der::BIT_STRING, &[&[0], signature.as_slice()].concat());
        Ok(der::tlv(
            der::SEQUENCE,
            &[body.as_slice(), parts[1], &signature].concat(),
        ))
    }
}

/// A key pair for signing service account tokens: private, public, both PEM.
pub(crate) fn token_keys() -> Result<(String, String)> {
    let key = KeyPair::generate()?;
    Ok((key.serialize_pem(), key.public_key_pem()))
}

fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<&str> = (0..text.len())
        .step_by(64)
        .filter_map(|at| text.get(at..text.len().min(at + 64)))
        .collect();
    format!(
        "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
        lines.join("\n")
    )
}

/// As much of the encoding as a subject needs.
mod der {
    use anyhow::{Context as _, Result};

    pub(super) const SEQUENCE: u8 = 0x30;
    pub(super) const BIT_STRING: u8 = 0x03;
    const SET: u8 = 0x31;
    const UTF8_STRING: u8 = 0x0c;
    const COMMON_NAME: &[u8] = &[0x06, 3, 0x55, 4, 3];
    const ORGANISATION: &[u8] = &[0x06, 3, 0x55, 4, 10];

    pub(super) fn name(user: &str, groups: &[&str]) -> Vec<u8> {
        let attribute = |kind: &[u8], value: &str| {
            let value = tlv(UTF8_STRING, value.as_bytes());
            tlv(SET, &tlv(SEQUENCE, &[kind, &value].concat()))
        };
        let mut names: Vec<_> = groups
            .iter()
            .map(|group| attribute(ORGANISATION, group))
            .collect();
        names.push(attribute(COMMON_NAME, user));
        tlv(SEQUENCE, &names.concat())
    }

    pub(super) fn tlv(tag: u8, content: &[u8]) -> Vec<u8> {
        let length = content.len().to_be_bytes();
        let length = &length[length.iter().take_while(|&&byte| byte == 0).count()..];
        let mut out = vec![tag];
        match (length, content.len()) {
            (_, short @ 0..=0x7f) => out.extend(u8::try_from(short)),
            (long, _) => {
                out.extend(u8::try_from(long.len()).map(|count| 0x80 | count));
                out.extend(long);
            }
        }
        out.extend(content);
        out
    }

    /// The elements inside of an element, each with its header.
    pub(super) fn children(element: &[u8]) -> Result<Vec<&[u8]>> {
        let (header, size) = header(element)?;
        let mut rest = element
            .get(header..header + size)
            .context("an element is cut off")?;
        let mut children = Vec::new();
        while !rest.is_empty() {
            let (header, size) = self::header(rest)?;
            let (child, after) = rest.split_at_checked(header + size).context("cut off")?;
            children.push(child);
            rest = after;
        }
        Ok(children)
    }

    /// The sizes of an element's header and content.
    fn header(element: &[u8]) -> Result<(usize, usize)> {
        let first = usize::from(*element.get(1).context("an element has no length")?);
        if first < 0x80 {
            return Ok((2, first));
        }
        let count = first & 0x7f;
        let bytes = element.get(2..2 + count).context("a length is cut off")?;
        let size = bytes
            .iter()
            .fold(0, |size, &byte| size << 8 | usize::from(byte));
        Ok((2 + count, size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_reads_back_at_every_length_of_its_length() {
        for size in [0, 1, 127, 128, 255, 256, 70_000] {
            let inner = der::tlv(der::BIT_STRING, &vec![7; size]);
            let outer = der::tlv(
                der::SEQUENCE,
                &[inner.as_slice(), inner.as_slice()].concat(),
            );
            assert_eq!(
                der::children(&outer).unwrap(),
                [inner.as_slice(), inner.as_slice()]
            );
        }
    }

    #[test]
    fn a_cut_off_element_is_an_error() {
        let whole = der::tlv(der::SEQUENCE, &der::tlv(der::BIT_STRING, &[1; 300]));
        for end in 0..whole.len() {
            assert!(der::children(&whole[..end]).is_err(), "{end}");
        }
    }
}
