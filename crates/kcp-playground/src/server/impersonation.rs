//! The user of a request: the authenticated one, or another one by impersonation headers (`kubectl --as`). Every user
//! may impersonate any other, because nothing is forbidden here.

use http::{HeaderMap, HeaderValue};

use super::auth::Identity;
use crate::catalog::User;
use crate::status::Status;

const USER: &str = "impersonate-user";
const UID: &str = "impersonate-uid";
const GROUP: &str = "impersonate-group";
const EXTRA: &str = "impersonate-extra-";

const ANONYMOUS: &str = "system:anonymous";
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";

/// The user for the API. Extra fields are not read, because nothing shows them.
pub(super) fn acting(asking: &Identity, headers: &HeaderMap) -> Result<User, Status> {
    let name = first(headers, USER);
    let uid = first(headers, UID);
    let mut groups: Vec<String> = headers.get_all(GROUP).iter().map(text).collect();
    if name.is_empty() {
        let extra = headers.keys().any(|key| key.as_str().starts_with(EXTRA));
        if extra || !uid.is_empty() || !groups.is_empty() {
            return Err(Status::internal(
                "groups, uid or extras are impersonated without a user; name one in Impersonate-User (kubectl --as)",
            ));
        }
        return Ok(User {
            name: asking.name.clone(),
            uid: asking.uid.clone(),
            groups: asking.groups.clone(),
        });
    }
    if groups.is_empty()
        && let Some(namespace) = namespace_of_account(&name)
    {
        groups = vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
        ];
    }
    let has = |group: &str| groups.iter().any(|had| had == group);
    if name == ANONYMOUS && !has(UNAUTHENTICATED) {
        groups.push(UNAUTHENTICATED.to_owned());
    } else if name != ANONYMOUS && !has(AUTHENTICATED) && !has(UNAUTHENTICATED) {
        groups.push(AUTHENTICATED.to_owned());
    }
    Ok(User { name, uid, groups })
}

fn first(headers: &HeaderMap, name: &str) -> String {
    headers.get(name).map(text).unwrap_or_default()
}

fn text(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

/// The namespace of `system:serviceaccount:<namespace>:<name>`.
fn namespace_of_account(user: &str) -> Option<&str> {
    let (namespace, name) = user
        .strip_prefix("system:serviceaccount:")?
        .split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some(namespace)
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    fn acting_with(headers: &[(&'static str, &'static str)]) -> Result<User, Status> {
        let admin = Identity {
            name: "admin".into(),
            uid: "1".into(),
            groups: vec!["masters".into()],
        };
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            );
        }
        acting(&admin, &map)
    }

    #[track_caller]
    fn check(headers: &[(&'static str, &'static str)], name: &str, uid: &str, groups: &[&str]) {
        let user = acting_with(headers).unwrap();
        assert_eq!((user.name.as_str(), user.uid.as_str()), (name, uid));
        assert_eq!(user.groups, groups);
    }

    #[test]
    fn who_impersonates_nobody_is_himself() {
        check(&[], "admin", "1", &["masters"]);
    }

    #[test]
    fn who_impersonates_is_the_other_one_with_nothing_of_his_own() {
        check(&[(USER, "alice")], "alice", "", &[AUTHENTICATED]);
        check(
            &[(USER, "alice"), (GROUP, "a"), (GROUP, "b"), (UID, "7")],
            "alice",
            "7",
            &["a", "b", AUTHENTICATED],
        );
        check(
            &[(USER, "alice"), (GROUP, AUTHENTICATED)],
            "alice",
            "",
            &[AUTHENTICATED],
        );
        check(
            &[(USER, "alice"), (GROUP, UNAUTHENTICATED)],
            "alice",
            "",
            &[UNAUTHENTICATED],
        );
        check(&[(USER, ANONYMOUS)], ANONYMOUS, "", &[UNAUTHENTICATED]);
    }

    #[test]
    fn a_service_account_is_in_the_groups_of_service_accounts_unless_others_are_named() {
        let account = "system:serviceaccount:team:bot";
        check(
            &[(USER, account)],
            account,
            "",
            &[
                "system:serviceaccounts",
                "system:serviceaccounts:team",
                AUTHENTICATED,
            ],
        );
        check(
            &[(USER, account), (GROUP, "a")],
            account,
            "",
            &["a", AUTHENTICATED],
        );
        let odd = "system:serviceaccount:team:a:b";
        check(&[(USER, odd)], odd, "", &[AUTHENTICATED]);
    }

    #[test]
    fn nothing_can_be_impersonated_but_with_a_user() {
        for header in [(GROUP, "a"), (UID, "7"), ("impersonate-extra-x", "y")] {
            let status = acting_with(&[header]).unwrap_err();
            assert_eq!(status.code, 500);
            assert!(status.message.contains("Impersonate-User"), "{header:?}");
        }
    }
}
