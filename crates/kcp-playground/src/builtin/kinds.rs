//! The table of built-in kinds.

use std::sync::Arc;

use super::reviews::{Identify, Question, Reviews};
use super::shapes::{DecodedKind, Dropping, Shape};
use super::{accounts, data, events, leases, namespaces, quotas, rbac};
use crate::catalog::{Conversion, Flavour, ObjectSchema, Resource, Strategy, Verbs};
use crate::custom::{self, definitions};
use crate::fields;
use crate::store::{Name, Table};
use crate::table;
use kube_schema::names::{NameRule, Scope};

/// One kind in one version.
pub(super) struct Row {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    short_names: &'static [&'static str],
    scope: Scope,
    status: StatusSubresource,
    flavour: Flavour,
    verbs: Verbs,
    name_rule: NameRule,
    selectable: &'static [&'static str],
    rules: Rules,
}

/// Whether `/status` is served.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StatusSubresource {
    Served,
    Absent,
}

/// The rules of a kind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rules {
    AsIs,
    Namespace,
    ConfigMap,
    Secret,
    ServiceAccount,
    Role,
    RoleBinding,
    Event,
    Review(Question),
    Definition,
    Lease,
    Quota,
}

const CORE: Row = Row {
    group: "",
    version: "v1",
    kind: "",
    plural: "",
    short_names: &[],
    scope: Scope::Namespaced,
    status: StatusSubresource::Absent,
    flavour: Flavour::BuiltIn,
    verbs: Verbs::All,
    name_rule: NameRule::Dns1123Subdomain,
    selectable: &[],
    rules: Rules::AsIs,
};

const RBAC: Row = Row {
    group: "rbac.authorization.k8s.io",
    name_rule: NameRule::PathSegment,
    ..CORE
};

const ADMISSION: Row = Row {
    group: "admissionregistration.k8s.io",
    scope: Scope::Cluster,
    flavour: Flavour::BuiltInWithGeneration,
    ..CORE
};

const REVIEW: Row = Row {
    group: "authorization.k8s.io",
    scope: Scope::Cluster,
    verbs: Verbs::CreateOnly,
    ..CORE
};

/// The selectable fields of events, by their names in the two versions.
const EVENT_FIELDS: &[&str] = &[
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
];
const EVENT_VIEW_FIELDS: &[&str] = &[
    "regarding.kind",
    "regarding.namespace",
    "regarding.name",
    "regarding.uid",
    "regarding.apiVersion",
    "regarding.resourceVersion",
    "regarding.fieldPath",
    "reason",
    "reportingController",
    "type",
];

pub(super) const TABLE: &[Row] = &[
    Row {
        kind: "Namespace",
        plural: "namespaces",
        short_names: &["ns"],
        scope: Scope::Cluster,
        status: StatusSubresource::Served,
        name_rule: NameRule::Dns1123Label,
        selectable: &["status.phase"],
        rules: Rules::Namespace,
        ..CORE
    },
    Row {
        kind: "ConfigMap",
        plural: "configmaps",
        short_names: &["cm"],
        rules: Rules::ConfigMap,
        ..CORE
    },
    Row {
        kind: "Secret",
        plural: "secrets",
        selectable: &["type"],
        rules: Rules::Secret,
        ..CORE
    },
    Row {
        kind: "ServiceAccount",
        plural: "serviceaccounts",
        short_names: &["sa"],
        rules: Rules::ServiceAccount,
        ..CORE
    },
    Row {
        kind: "ResourceQuota",
        plural: "resourcequotas",
        short_names: &["quota"],
        status: StatusSubresource::Served,
        rules: Rules::Quota,
        ..CORE
    },
    Row {
        kind: "Event",
        plural: "events",
        short_names: &["ev"],
        selectable: EVENT_FIELDS,
        rules: Rules::Event,
        ..CORE
    },
    Row {
        group: events::VIEW_GROUP,
        kind: "Event",
        plural: "events",
        short_names: &["ev"],
        selectable: EVENT_VIEW_FIELDS,
        rules: Rules::Event,
        ..CORE
    },
    Row {
        kind: "Role",
        plural: "roles",
        rules: Rules::Role,
        ..RBAC
    },
    Row {
        kind: "ClusterRole",
        plural: "clusterroles",
        scope: Scope::Cluster,
        rules: Rules::Role,
        ..RBAC
    },
    Row {
        kind: "RoleBinding",
        plural: "rolebindings",
        rules: Rules::RoleBinding,
        ..RBAC
    },
    Row {
        kind: "ClusterRoleBinding",
        plural: "clusterrolebindings",
        scope: Scope::Cluster,
        rules: Rules::RoleBinding,
        ..RBAC
    },
    Row {
        group: "coordination.k8s.io",
        kind: "Lease",
        plural: "leases",
        rules: Rules::Lease,
        ..CORE
    },
    Row {
        group: custom::GROUP,
        kind: "CustomResourceDefinition",
        plural: custom::PLURAL,
        short_names: &["crd", "crds"],
        scope: Scope::Cluster,
        status: StatusSubresource::Served,
        flavour: Flavour::BuiltInWithGeneration,
        rules: Rules::Definition,
        ..CORE
    },
    Row {
        kind: "MutatingWebhookConfiguration",
        plural: "mutatingwebhookconfigurations",
        ..ADMISSION
    },
    Row {
        kind: "ValidatingWebhookConfiguration",
        plural: "validatingwebhookconfigurations",
        ..ADMISSION
    },
    Row {
        kind: "ValidatingAdmissionPolicy",
        plural: "validatingadmissionpolicies",
        status: StatusSubresource::Served,
        ..ADMISSION
    },
    Row {
        kind: "ValidatingAdmissionPolicyBinding",
        plural: "validatingadmissionpolicybindings",
        ..ADMISSION
    },
    Row {
        group: "certificates.k8s.io",
        kind: "CertificateSigningRequest",
        plural: "certificatesigningrequests",
        short_names: &["csr"],
        scope: Scope::Cluster,
        status: StatusSubresource::Served,
        selectable: &["spec.signerName"],
        ..CORE
    },
    Row {
        kind: "SubjectAccessReview",
        plural: "subjectaccessreviews",
        rules: Rules::Review(Question::Access),
        ..REVIEW
    },
    Row {
        kind: "SelfSubjectAccessReview",
        plural: "selfsubjectaccessreviews",
        rules: Rules::Review(Question::SelfAccess),
        ..REVIEW
    },
    Row {
        kind: "LocalSubjectAccessReview",
        plural: "localsubjectaccessreviews",
        scope: Scope::Namespaced,
        rules: Rules::Review(Question::LocalAccess),
        ..REVIEW
    },
    Row {
        kind: "SelfSubjectRulesReview",
        plural: "selfsubjectrulesreviews",
        rules: Rules::Review(Question::SelfRules),
        ..REVIEW
    },
    Row {
        group: "authentication.k8s.io",
        kind: "TokenReview",
        plural: "tokenreviews",
        rules: Rules::Review(Question::Token),
        ..REVIEW
    },
    Row {
        group: "authentication.k8s.io",
        kind: "SelfSubjectReview",
        plural: "selfsubjectreviews",
        rules: Rules::Review(Question::SelfSubject),
        ..REVIEW
    },
];

impl Row {
    pub(super) fn resource(&self, identify: &Identify) -> Arc<Resource> {
        let names = |names: &[&str]| names.iter().map(|name| Name::from(*name)).collect();
        Arc::new(Resource {
            group: self.group.into(),
            version: self.version.into(),
            plural: self.plural.into(),
            singular: self.kind.to_lowercase().into(),
            kind: self.kind.into(),
            list_kind: format!("{}List", self.kind).into(),
            short_names: names(self.short_names),
            categories: if [ADMISSION.group, custom::GROUP].contains(&self.group) {
                names(&["api-extensions"])
            } else {
                Vec::new()
            },
            namespaced: self.scope == Scope::Namespaced,
            table: match self.rules {
                // Both versions share one table.
                Rules::Event => Table::new("", self.plural, ""),
                _ => Table::new(self.group, self.plural, ""),
            },
            storage_version: self.version.into(),
            has_status: self.status == StatusSubresource::Served,
            verbs: self.verbs,
            flavour: self.flavour,
            name_rule: self.name_rule,
            schema: Some(self.schema()),
            storage_schema: None,
            fields: fields::builtin::kind(self.group, self.kind).unwrap_or(fields::Type::Deduced),
            strategy: Some(self.strategy(identify)),
            conversion: (self.group == events::VIEW_GROUP)
                .then(|| Arc::new(events::EventView) as Arc<dyn Conversion>),
            required_label: None,
            only: None,
            selectable_fields: names(self.selectable),
            printer: (self.verbs != Verbs::CreateOnly).then(|| table::builtin(self.kind)),
            incarnation: 0,
        })
    }

    fn schema(&self) -> Arc<dyn ObjectSchema> {
        let shape = Arc::new(Shape::new(self.group, self.version, self.kind));
        Arc::new(Dropping(shape))
    }

    fn strategy(&self, identify: &Identify) -> Arc<dyn Strategy> {
        let rules = self.rules.strategy(identify);
        // A strategy gets objects in their stored form.
        let group = if self.rules == Rules::Event {
            ""
        } else {
            self.group
        };
        let shape = Arc::new(Shape::new(group, self.version, self.kind));
        Arc::new(DecodedKind { shape, rules })
    }
}

impl Rules {
    fn strategy(self, identify: &Identify) -> Option<Arc<dyn Strategy>> {
        Some(match self {
            Self::AsIs => return None,
            Self::Namespace => Arc::new(namespaces::Namespaces),
            Self::ConfigMap => Arc::new(data::ConfigMaps),
            Self::Secret => Arc::new(data::Secrets),
            Self::ServiceAccount => Arc::new(accounts::ServiceAccounts),
            Self::Role => Arc::new(rbac::Roles),
            Self::RoleBinding => Arc::new(rbac::RoleBindings),
            Self::Event => Arc::new(events::Events),
            Self::Lease => Arc::new(leases::Leases),
            Self::Quota => Arc::new(quotas::Quotas),
            Self::Definition => Arc::new(definitions::Definitions),
            Self::Review(question) => Arc::new(Reviews {
                question,
                identify: Arc::clone(identify),
            }),
        })
    }
}
