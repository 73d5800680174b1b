//! URLs: absolute ones, or absolute paths.

use std::rc::Rc;

use super::{Opaque, answer};
use crate::{
    fault::{Answer, Meter},
    value::Val,
};
use kube_lang::formats;

#[derive(Clone, Debug, PartialEq)]
pub struct Url {
    scheme: String,
    host: String,
    path: String,
    query: String,
}

fn parse(text: &str) -> Result<Url, String> {
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
    fn hostname(&self) -> &str {
        if let Some(rest) = self.host.strip_prefix('[') {
            return rest.split(']').next().unwrap_or_default();
        }
        self.host.split(':').next().unwrap_or_default()
    }

    fn port(&self) -> &str {
        let after = self.host.rsplit(']').next().unwrap_or_default();
        after.rsplit_once(':').map_or("", |(_, port)| port)
    }

    fn query<'a>(&self) -> Val<'a> {
        let mut entries: Vec<(String, Vec<Val<'a>>)> = Vec::new();
        for (key, value) in form_urlencoded::parse(self.query.as_bytes()) {
            let value = Val::text(value.as_ref());
            match entries.iter_mut().find(|(known, _)| *known == key) {
                Some((_, values)) => values.push(value),
                None => entries.push((key.into_owned(), vec![value])),
            }
        }
        let entries = entries
            .into_iter()
            .map(|(key, values)| (Val::text(key), Val::list(values)));
        Val::Map(Rc::new(entries.collect()))
    }
}

pub(super) fn call<'a>(name: &str, arguments: &[Val<'a>], meter: &Meter) -> Option<Answer<'a>> {
    match arguments {
        [Val::Text(text)] => {
            let text = text.as_str();
            if let Err(fault) = meter.bytes(text.len()) {
                return Some(Err(fault));
            }
            match name {
                "url" => Some(answer(parse(text).map(Opaque::Url))),
                "isURL" => Some(Ok(Val::Bool(parse(text).is_ok()))),
                _ => None,
            }
        }
        [Val::Opaque(opaque)] => {
            let Opaque::Url(url) = opaque.as_ref() else {
                return None;
            };
            Some(Ok(match name {
                "getScheme" => Val::text(url.scheme.as_str()),
                "getHost" => Val::text(url.host.as_str()),
                "getHostname" => Val::text(url.hostname()),
                "getPort" => Val::text(url.port()),
                "getEscapedPath" => Val::text(url.path.as_str()),
                "getQuery" => url.query(),
                _ => return None,
            }))
        }
        _ => None,
    }
}
