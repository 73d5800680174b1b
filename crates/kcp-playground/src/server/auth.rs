//! Authentication: static bearer tokens, as in kube-apiserver's token file.
//!
//! There is no authorisation: every known user may do everything.

use std::collections::HashMap;

/// A user of the control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
}

/// An invalid line of a token file.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("token file, line {line}: {problem}")]
pub struct TokenFileError {
    pub line: usize,
    pub problem: String,
}

/// The accepted tokens.
#[derive(Clone, Debug, Default)]
pub struct Tokens {
    users: HashMap<String, Identity>,
}

impl Tokens {
    /// Accepts a token for a user. If the token exists already, it now belongs to the new user.
    pub fn insert(&mut self, token: &str, mut identity: Identity) {
        // In Kubernetes, every authenticated request has this group; token files leave it out.
        let authenticated = "system:authenticated".to_owned();
        if !identity.groups.contains(&authenticated) {
            identity.groups.push(authenticated);
        }
        self.users.insert(token.to_owned(), identity);
    }

    /// Parses kube-apiserver's format: `token,user,uid,"group1,group2"`, the groups optional.
    pub fn insert_csv(&mut self, csv: &str) -> Result<(), TokenFileError> {
        for (index, line) in csv.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let error = |problem: &str| TokenFileError {
                line: index + 1,
                problem: problem.to_owned(),
            };
            let fields = csv_fields(line).map_err(&error)?;
            let [token, name, uid, rest @ ..] = fields.as_slice() else {
                return Err(error(
                    "expected at least token, user name and user uid, separated by commas",
                ));
            };
            if token.is_empty() || name.is_empty() {
                return Err(error("the token and the user name must not be empty"));
            }
            let groups = rest
                .first()
                .map(|groups| {
                    groups
                        .split(',')
                        .map(str::trim)
                        .filter(|g| !g.is_empty())
                        .map(str::to_owned)
                        .collect()
                })
                .unwrap_or_default();
            self.insert(
                token,
                Identity {
                    name: name.clone(),
                    uid: uid.clone(),
                    groups,
                },
            );
        }
        Ok(())
    }

    /// The user of an `Authorization` header, if its token is accepted.
    pub fn authenticate(&self, authorization: Option<&[u8]>) -> Option<&Identity> {
        let value = std::str::from_utf8(authorization?).ok()?;
        let (scheme, token) = value.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        self.users.get(token.trim())
    }
}

/// Splits one line of CSV; a field may be in double quotes, with quotes in it doubled.
fn csv_fields(line: &str) -> Result<Vec<String>, &'static str> {
    let mut fields = Vec::new();
    let mut chars = line.chars().peekable();
    loop {
        while chars.next_if_eq(&' ').is_some() {}
        let mut field = String::new();
        if chars.next_if_eq(&'"').is_some() {
            loop {
                match chars.next() {
                    None => return Err("a quoted field does not end"),
                    Some('"') if chars.next_if_eq(&'"').is_some() => field.push('"'),
                    Some('"') => break,
                    Some(c) => field.push(c),
                }
            }
            while chars.next_if_eq(&' ').is_some() {}
        } else {
            while let Some(c) = chars.next_if(|c| *c != ',') {
                field.push(c);
            }
            field.truncate(field.trim_end().len());
        }
        fields.push(field);
        match chars.next() {
            None => return Ok(fields),
            Some(',') => {}
            Some(_) => return Err("expected a comma after a quoted field"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(csv: &str) -> Tokens {
        let mut tokens = Tokens::default();
        tokens.insert_csv(csv).unwrap();
        tokens
    }

    #[test]
    fn a_token_file_line_names_user_uid_and_groups() {
        let tokens = tokens("secret-1,agent,1111-2222,\"agents,others\"\n\nsecret-2,plain,3\n");
        let identity = tokens.authenticate(Some(b"Bearer secret-1")).unwrap();
        assert_eq!(identity.name, "agent");
        assert_eq!(identity.uid, "1111-2222");
        assert_eq!(
            identity.groups,
            ["agents", "others", "system:authenticated"]
        );
        let plain = tokens.authenticate(Some(b"bearer secret-2")).unwrap();
        assert_eq!(plain.groups, ["system:authenticated"]);
    }

    #[test]
    fn unknown_missing_and_malformed_credentials_are_nobody() {
        let tokens = tokens("secret,agent,1");
        for header in [
            None,
            Some(&b"Bearer other"[..]),
            Some(b"Basic secret"),
            Some(b"Bearer"),
            Some(b"\xff\xfe"),
        ] {
            assert_eq!(tokens.authenticate(header), None);
        }
    }

    #[test]
    fn a_broken_token_file_line_is_named() {
        let error = |csv: &str| Tokens::default().insert_csv(csv).unwrap_err().to_string();
        assert_eq!(
            error("a,b,c\nx,y"),
            "token file, line 2: expected at least token, user name and user uid, separated by commas"
        );
        assert_eq!(
            error("a,b,c,\"g"),
            "token file, line 1: a quoted field does not end"
        );
        assert_eq!(
            error(",b,c"),
            "token file, line 1: the token and the user name must not be empty"
        );
    }
}
