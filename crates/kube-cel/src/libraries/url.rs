//! URLs: absolute ones, or absolute paths.

use kube_lang::formats;

#[derive(Clone, Debug, PartialEq)]
pub struct Url {
    pub(crate) scheme: String,
    pub(crate) host: String,
    pub(crate) path: String,
    pub(crate) query: String,
}

pub(crate) fn parse(text: &str) -> Result<Url, String> {
    let wrong =
        |why: &str| format!("URL parse error during conversion from string: parse {text:?}: {why}");
    if text.is_empty() {
        return Err(wrong("empty url"));
    }
    if !formats::is_uri(text) || text == "*" {
        return Err(wrong("invalid URI for request"));
    }
    let (before, query) = text.split_once('?').unwrap_or((text, ""));
    let (scheme, rest) = if before.starts_with('/') {
        ("", before)
    } else {
        before.split_once(':').unwrap_or(("", before))
    };
    let (host, path) = match rest.strip_prefix("//") {
        Some(rest) => match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        },
        None if rest.starts_with('/') => ("", rest),
        None => ("", ""),
    };
    Ok(Url {
        scheme: scheme.to_ascii_lowercase(),
        host: host.rsplit('@').next().unwrap_or_default().to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
    })
}

impl Url {
    pub(crate) fn hostname(&self) -> &str {
        if let Some(rest) = self.host.strip_prefix('[') {
            return rest.split(']').next().unwrap_or_default();
        }
        self.host.split(':').next().unwrap_or_default()
    }

    pub(crate) fn port(&self) -> &str {
        let after = self.host.rsplit(']').next().unwrap_or_default();
        after.rsplit_once(':').map_or("", |(_, port)| port)
    }
}
