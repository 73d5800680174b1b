use std::fs;

use tempfile::TempDir;

use super::*;

pub(super) struct Files {
    dir: TempDir,
}

/// A kubeconfig for a server, with more lines for its cluster and its user.
pub(super) fn kubeconfig(server: &str, cluster: &str, user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: main\n\
         contexts:\n- name: main\n  context: {{cluster: there, user: me}}\n\
         clusters:\n- name: there\n  cluster:\n    server: {server}\n    {cluster}\n\
         users:\n- name: me\n  user:\n    as: somebody\n    {user}\n"
    )
}

/// An authority in PEM.
pub(super) fn authority() -> String {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["there".to_owned()]).unwrap();
    certificate.self_signed(&key).unwrap().pem()
}

/// A file whose server has to be a workspace.
pub(super) fn in_workspace(path: &Path) -> Source {
    let required = RequiredUrl {
        part: "/clusters/",
        complaint: "which is no workspace",
    };
    Source::file(path, required)
}

impl Files {
    pub(super) fn new() -> Self {
        Self {
            dir: TempDir::new().unwrap(),
        }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(super) fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// A kubeconfig that leads to a server of its own name.
    fn leading_to(&self, name: &str) -> PathBuf {
        let server = format!("https://{}", name.replace(['/', '.'], "-"));
        self.write(name, &kubeconfig(&server, "", ""))
    }

    /// Nothing but a home without a kubeconfig.
    fn environment(&self) -> Environment {
        Environment {
            home: Some(self.dir.path().to_owned()),
            service_account: self.path("account"),
            ..Environment::default()
        }
    }

    fn environment_of_a_pod(&self) -> Environment {
        self.write("account/token", "secret");
        self.write("account/ca.crt", &authority());
        Environment {
            service: Some(("10.0.0.1".to_owned(), "443".to_owned())),
            ..self.environment()
        }
    }
}

fn list(paths: &[PathBuf]) -> OsString {
    std::env::join_paths(paths).unwrap()
}

fn named(path: PathBuf) -> Lookup {
    Lookup {
        kubeconfig: Some(path),
        ..Lookup::default()
    }
}

#[track_caller]
fn leads_to(lookup: &Lookup, environment: &Environment, expected: &str) {
    let config = Source::find(lookup, environment).unwrap().read().unwrap();
    assert_eq!(config.cluster_url.to_string(), expected);
}

#[test]
fn the_flag_goes_before_the_list_before_the_pod_before_the_home() {
    let files = Files::new();
    let anywhere = Lookup::default();
    let mut environment = files.environment();
    assert!(matches!(
        Source::find(&anywhere, &environment),
        Err(ConfigError::Nowhere)
    ));

    files.leading_to(".kube/config");
    leads_to(&anywhere, &environment, "https://-kube-config/");

    environment = files.environment_of_a_pod();
    leads_to(&anywhere, &environment, "https://10.0.0.1:443/");

    environment.kubeconfig = Some(list(&[files.leading_to("listed")]));
    leads_to(&anywhere, &environment, "https://listed/");

    leads_to(
        &named(files.leading_to("flag")),
        &environment,
        "https://flag/",
    );
}

#[test]
fn of_a_list_the_first_file_to_say_something_is_right_and_missing_ones_are_passed_over() {
    let files = Files::new();
    let mut environment = files.environment();
    let (one, two) = (files.leading_to("one"), files.leading_to("two"));
    let missing = files.path("missing");
    environment.kubeconfig = Some(list(&[PathBuf::new(), missing.clone(), two.clone(), one]));
    leads_to(&Lookup::default(), &environment, "https://two/");

    // A context here, its cluster there.
    let context = files.write(
        "context",
        "current-context: other\ncontexts:\n- name: other\n  context: {cluster: there, user: me}\n",
    );
    environment.kubeconfig = Some(list(&[context, two]));
    leads_to(&Lookup::default(), &environment, "https://two/");

    environment.kubeconfig = Some(list(&[missing]));
    let nowhere = Source::find(&Lookup::default(), &environment);
    assert!(matches!(nowhere, Err(ConfigError::Nowhere)));
}

#[test]
fn a_list_of_missing_files_leaves_the_pod() {
    let files = Files::new();
    let environment = Environment {
        kubeconfig: Some(list(&[files.path("missing")])),
        ..files.environment_of_a_pod()
    };
    leads_to(&Lookup::default(), &environment, "https://10.0.0.1:443/");
}

#[test]
fn a_pod_uses_its_service_account_and_brackets_addresses_that_need_it() {
    let files = Files::new();
    let mut environment = files.environment_of_a_pod();
    environment.service = Some(("fd00::1".to_owned(), "6443".to_owned()));
    let config = Source::find(&Lookup::default(), &environment)
        .unwrap()
        .read()
        .unwrap();
    assert_eq!(config.cluster_url.to_string(), "https://[fd00::1]:6443/");
    assert_eq!(
        config.auth_info.token_file,
        files.path("account/token").to_str().map(str::to_owned)
    );
    assert_eq!(config.root_cert.unwrap().len(), 1);

    fs::remove_file(files.path("account/token")).unwrap();
    assert!(Source::find(&Lookup::default(), &environment).is_err());
}

#[test]
fn overrides_take_the_place_of_server_and_authority() {
    let files = Files::new();
    // An inline authority that is none would be refused if it were still there.
    let inline = kubeconfig(
        "https://there",
        "certificate-authority-data: bm9uZQ==",
        "token: t",
    );
    let path = files.write("config", &inline);
    let lookup = Lookup {
        host_override: Some("https://elsewhere:6443/base".to_owned()),
        ca_file_override: Some(files.write("ca.crt", &authority())),
        ..named(path)
    };
    let config = Source::find(&lookup, &Environment::default())
        .unwrap()
        .read()
        .unwrap();
    assert_eq!(
        config.cluster_url.to_string(),
        "https://elsewhere:6443/base"
    );
    assert_eq!(config.root_cert.unwrap().len(), 1);
    assert!(config.auth_info.token.is_some());

    let broken = Lookup {
        ca_file_override: Some(files.path("missing.crt")),
        ..lookup
    };
    let error = Source::find(&broken, &Environment::default())
        .unwrap()
        .read()
        .unwrap_err();
    assert!(crate::errors::chain(&error).contains("missing.crt"));
}

#[test]
fn addresses_without_a_scheme_are_taken_as_other_clients_take_them() {
    let files = Files::new();
    for (cluster, expected) in [
        ("", "http://there:80/"),
        ("insecure-skip-tls-verify: true", "https://there:80/"),
    ] {
        let path = files.write("config", &kubeconfig("'there:80'", cluster, ""));
        leads_to(&named(path), &Environment::default(), expected);
    }
}

#[test]
fn files_that_a_kubeconfig_names_lie_where_it_lies_and_a_token_in_a_file_is_the_newer_one() {
    let files = Files::new();
    files.write("nested/ca.crt", &authority());
    let path = files.write(
        "nested/config",
        &kubeconfig(
            "https://there",
            "certificate-authority: ca.crt",
            "token: old\n    tokenFile: token",
        ),
    );
    let config = Source::find(&named(path), &Environment::default())
        .unwrap()
        .read()
        .unwrap();
    assert_eq!(config.root_cert.unwrap().len(), 1);
    assert!(config.auth_info.token.is_none());
    let token = files.path("nested/token");
    assert_eq!(config.auth_info.token_file.as_deref(), token.to_str());
}

#[test]
fn calls_are_not_tried_again_behind_our_back_and_watches_may_be_silent() {
    let files = Files::new();
    let config = Source::find(&named(files.leading_to("config")), &Environment::default());
    let config = config.unwrap().read().unwrap();
    assert!(!config.default_retry);
    assert_eq!(config.read_timeout, None);
}

#[test]
fn a_url_without_the_required_part_is_refused() {
    let files = Files::new();
    let path = files.write(
        "kcp",
        &kubeconfig("https://kcp:6443/clusters/root:org", "", ""),
    );
    let config = in_workspace(&path).read().unwrap();
    assert_eq!(config.cluster_url.path(), "/clusters/root:org");

    let path = files.leading_to("plain");
    let error = in_workspace(&path).read().unwrap_err().to_string();
    assert!(
        error.contains("which is no workspace") && error.contains("https://plain/"),
        "{error}"
    );
}

#[test]
fn what_cannot_be_read_is_named_and_its_secrets_are_not_quoted() {
    let files = Files::new();
    let missing = in_workspace(&files.path("missing")).read().unwrap_err();
    assert!(missing.to_string().contains("missing"), "{missing}");

    for text in [
        "users:\n- name: [hush-hush\n",
        "users: hush-hush\n",
        "hush-hush",
    ] {
        let error = in_workspace(&files.write("config", text))
            .read()
            .unwrap_err();
        let text = crate::errors::chain(&error);
        assert!(text.contains("config") && !text.contains("hush"), "{text}");
    }
    let error = in_workspace(&files.write("config", "")).read().unwrap_err();
    assert!(crate::errors::chain(&error).contains("current context"));
}
