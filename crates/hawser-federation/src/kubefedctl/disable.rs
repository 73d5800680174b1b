//! `kubefedctl disable`: arguments and output.

/// Flags that depend on each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    pub delete_crd: bool,
    /// Whether `--version` was given.
    pub version: bool,
    /// Whether `--federated-group` was given.
    pub federated_group: bool,
}

/// The reason why a type cannot be disabled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DisableError {
    #[error("NAME is required")]
    Name,
    #[error("--version flag valid only with --delete-crd")]
    Version,
    #[error("--kubefed-group flag valid only with --delete-crd")]
    FederatedGroup,
    #[error(
        "Cannot delete CRD {0:?} while resource instances exist. Please try kubefedctl disable again after removing the resource instances or without the '--delete-crd' option"
    )]
    Instances(String),
}

/// A line of output, with the name of the `FederatedTypeConfig` or the definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    Disabled(&'a str),
    AlreadyDisabled(&'a str),
    Verifying(&'a str),
    Stopped(&'a str),
    DefinitionDeleted(&'a str),
    ConfigDeleted(&'a str),
    ConfigMissing(&'a str),
}

impl std::fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Disabled(name) => {
                write!(f, "Disabled propagation for FederatedTypeConfig {name:?}")
            }
            Self::AlreadyDisabled(name) => {
                write!(
                    f,
                    "Propagation already disabled for FederatedTypeConfig {name:?}"
                )
            }
            Self::Verifying(name) => write!(
                f,
                "Verifying propagation controller is stopped for FederatedTypeConfig {name:?}"
            ),
            Self::Stopped(name) => write!(
                f,
                "Propagation controller for FederatedTypeConfig {name:?} is stopped"
            ),
            Self::DefinitionDeleted(name) => write!(f, "customresourcedefinition {name:?} deleted"),
            Self::ConfigDeleted(name) => write!(f, "federatedtypeconfig {name:?} deleted"),
            Self::ConfigMissing(name) => write!(f, "FederatedTypeConfig {name:?} does not exist"),
        }
    }
}

/// Checks the arguments.
pub fn check(name: Option<&str>, flags: Flags) -> Result<(), DisableError> {
    if name.is_none_or(str::is_empty) {
        return Err(DisableError::Name);
    }
    match flags {
        Flags {
            delete_crd: true, ..
        } => Ok(()),
        Flags { version: true, .. } => Err(DisableError::Version),
        Flags {
            federated_group: true,
            ..
        } => Err(DisableError::FederatedGroup),
        Flags { .. } => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_about_the_definition_need_its_deletion() {
        let flags = Flags::default();
        for (name, flags, wanted) in [
            (None, flags, "NAME is required"),
            (
                Some("x"),
                Flags {
                    version: true,
                    ..flags
                },
                "--version flag valid only with --delete-crd",
            ),
            (
                Some("x"),
                Flags {
                    federated_group: true,
                    ..flags
                },
                "--kubefed-group flag valid only with --delete-crd",
            ),
        ] {
            assert_eq!(check(name, flags).unwrap_err().to_string(), wanted);
        }
        let all = Flags {
            delete_crd: true,
            version: true,
            federated_group: true,
        };
        assert!(check(Some("x"), all).is_ok() && check(Some("x"), flags).is_ok());
        assert_eq!(
            DisableError::Instances("federatedjobs.types.kubefed.io".into()).to_string(),
            "Cannot delete CRD \"federatedjobs.types.kubefed.io\" while resource instances exist. Please try \
             kubefedctl disable again after removing the resource instances or without the '--delete-crd' option"
        );
    }

    #[test]
    fn every_line_is_that_of_the_original() {
        let config = "ns/jobs.batch";
        for (line, wanted) in [
            (
                Line::Disabled(config),
                "Disabled propagation for FederatedTypeConfig \"ns/jobs.batch\"",
            ),
            (
                Line::AlreadyDisabled(config),
                "Propagation already disabled for FederatedTypeConfig \"ns/jobs.batch\"",
            ),
            (
                Line::Verifying(config),
                "Verifying propagation controller is stopped for FederatedTypeConfig \"ns/jobs.batch\"",
            ),
            (
                Line::Stopped(config),
                "Propagation controller for FederatedTypeConfig \"ns/jobs.batch\" is stopped",
            ),
            (
                Line::DefinitionDeleted("crd"),
                "customresourcedefinition \"crd\" deleted",
            ),
            (
                Line::ConfigDeleted(config),
                "federatedtypeconfig \"ns/jobs.batch\" deleted",
            ),
            (
                Line::ConfigMissing(config),
                "FederatedTypeConfig \"ns/jobs.batch\" does not exist",
            ),
        ] {
            assert_eq!(line.to_string(), wanted);
        }
    }
}
