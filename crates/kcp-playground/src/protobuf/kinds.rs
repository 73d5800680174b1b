//! The kinds that clients send in protobuf: for each message the number, name and type of its fields, and whether JSON
//! contains empty ones.

use Kind::{
    Bool, Bytes, Int32, Int64, Message as Nested, MicroTime, Quantity, RawJson, Text, Texts, Time,
};

#[derive(Clone, Copy)]
pub(super) enum Kind {
    Text,
    Bytes,
    Bool,
    Int32,
    Int64,
    Time,
    MicroTime,
    Quantity,
    /// JSON within a message, such as the field sets of managed fields.
    RawJson,
    /// A list of strings within a message.
    Texts,
    Message(&'static Message),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldShape {
    /// In JSON whenever it was sent.
    Kept,
    /// Sent even if it is empty, but then not in JSON.
    OmittedEmpty,
    List,
    Map,
}

pub(super) struct Entry {
    pub(super) number: u32,
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) shape: FieldShape,
}

pub(super) struct Message {
    pub(super) fields: &'static [Entry],
}

/// The message of a kind; `DeleteOptions` have the same one in all versions.
pub(super) fn find(group: &str, version: &str, kind: &str) -> Option<&'static Message> {
    if kind == "DeleteOptions" {
        return Some(&DELETE_OPTIONS);
    }
    if version != "v1" {
        return None;
    }
    Some(match (group, kind) {
        ("", "Namespace") => &NAMESPACE,
        ("", "Secret") => &SECRET,
        ("", "ConfigMap") => &CONFIG_MAP,
        ("", "ServiceAccount") => &SERVICE_ACCOUNT,
        ("", "Event") => &CORE_EVENT,
        ("", "ResourceQuota") => &RESOURCE_QUOTA,
        ("events.k8s.io", "Event") => &EVENT,
        ("coordination.k8s.io", "Lease") => &LEASE,
        ("rbac.authorization.k8s.io", kind) => match kind {
            "Role" => &ROLE,
            "ClusterRole" => &CLUSTER_ROLE,
            "RoleBinding" | "ClusterRoleBinding" => &BINDING,
            _ => return None,
        },
        ("authorization.k8s.io", kind) => match kind {
            "SubjectAccessReview" | "LocalSubjectAccessReview" => &SUBJECT_ACCESS_REVIEW,
            "SelfSubjectAccessReview" => &SELF_SUBJECT_ACCESS_REVIEW,
            "SelfSubjectRulesReview" => &SELF_SUBJECT_RULES_REVIEW,
            _ => return None,
        },
        ("authentication.k8s.io", "TokenReview") => &TOKEN_REVIEW,
        ("authentication.k8s.io", "SelfSubjectReview") => &SELF_SUBJECT_REVIEW,
        _ => return None,
    })
}

const fn entry(number: u32, name: &'static str, kind: Kind, shape: FieldShape) -> Entry {
    Entry {
        number,
        name,
        kind,
        shape,
    }
}

const fn kept(number: u32, name: &'static str, kind: Kind) -> Entry {
    entry(number, name, kind, FieldShape::Kept)
}

const fn omit(number: u32, name: &'static str, kind: Kind) -> Entry {
    entry(number, name, kind, FieldShape::OmittedEmpty)
}

const fn list(number: u32, name: &'static str, kind: Kind) -> Entry {
    entry(number, name, kind, FieldShape::List)
}

const fn map(number: u32, name: &'static str, kind: Kind) -> Entry {
    entry(number, name, kind, FieldShape::Map)
}

const METADATA: Entry = kept(1, "metadata", Nested(&OBJECT_META));

static OBJECT_META: Message = Message {
    fields: &[
        omit(1, "name", Text),
        omit(2, "generateName", Text),
        omit(3, "namespace", Text),
        omit(4, "selfLink", Text),
        omit(5, "uid", Text),
        omit(6, "resourceVersion", Text),
        omit(7, "generation", Int64),
        omit(8, "creationTimestamp", Time),
        omit(9, "deletionTimestamp", Time),
        kept(10, "deletionGracePeriodSeconds", Int64),
        map(11, "labels", Text),
        map(12, "annotations", Text),
        list(13, "ownerReferences", Nested(&OWNER_REFERENCE)),
        list(14, "finalizers", Text),
        list(17, "managedFields", Nested(&MANAGED_FIELDS)),
    ],
};

static OWNER_REFERENCE: Message = Message {
    fields: &[
        kept(1, "kind", Text),
        kept(3, "name", Text),
        kept(4, "uid", Text),
        kept(5, "apiVersion", Text),
        kept(6, "controller", Bool),
        kept(7, "blockOwnerDeletion", Bool),
    ],
};

static MANAGED_FIELDS: Message = Message {
    fields: &[
        omit(1, "manager", Text),
        omit(2, "operation", Text),
        omit(3, "apiVersion", Text),
        omit(4, "time", Time),
        omit(6, "fieldsType", Text),
        kept(7, "fieldsV1", RawJson),
        omit(8, "subresource", Text),
    ],
};

pub(super) static LIST_META: Message = Message {
    fields: &[
        omit(1, "selfLink", Text),
        omit(2, "resourceVersion", Text),
        omit(3, "continue", Text),
        kept(4, "remainingItemCount", Int64),
    ],
};

pub(super) static STATUS: Message = Message {
    fields: &[
        kept(1, "metadata", Nested(&LIST_META)),
        omit(2, "status", Text),
        omit(3, "message", Text),
        omit(4, "reason", Text),
        kept(5, "details", Nested(&STATUS_DETAILS)),
        omit(6, "code", Int32),
    ],
};

static STATUS_DETAILS: Message = Message {
    fields: &[
        omit(1, "name", Text),
        omit(2, "group", Text),
        omit(3, "kind", Text),
        list(4, "causes", Nested(&STATUS_CAUSE)),
        omit(5, "retryAfterSeconds", Int32),
        omit(6, "uid", Text),
    ],
};

static STATUS_CAUSE: Message = Message {
    fields: &[
        omit(1, "reason", Text),
        omit(2, "message", Text),
        omit(3, "field", Text),
    ],
};

static DELETE_OPTIONS: Message = Message {
    fields: &[
        kept(1, "gracePeriodSeconds", Int64),
        kept(2, "preconditions", Nested(&PRECONDITIONS)),
        kept(3, "orphanDependents", Bool),
        kept(4, "propagationPolicy", Text),
        list(5, "dryRun", Text),
        kept(6, "ignoreStoreReadErrorWithClusterBreakingPotential", Bool),
    ],
};

static PRECONDITIONS: Message = Message {
    fields: &[kept(1, "uid", Text), kept(2, "resourceVersion", Text)],
};

static LABEL_SELECTOR: Message = Message {
    fields: &[
        map(1, "matchLabels", Text),
        list(2, "matchExpressions", Nested(&SELECTOR_REQUIREMENT)),
    ],
};

static SELECTOR_REQUIREMENT: Message = Message {
    fields: &[
        kept(1, "key", Text),
        kept(2, "operator", Text),
        list(3, "values", Text),
    ],
};

static NAMESPACE: Message = Message {
    fields: &[
        METADATA,
        kept(2, "spec", Nested(&NAMESPACE_SPEC)),
        kept(3, "status", Nested(&NAMESPACE_STATUS)),
    ],
};

static NAMESPACE_SPEC: Message = Message {
    fields: &[list(1, "finalizers", Text)],
};

static NAMESPACE_STATUS: Message = Message {
    fields: &[
        omit(1, "phase", Text),
        list(2, "conditions", Nested(&NAMESPACE_CONDITION)),
    ],
};

static NAMESPACE_CONDITION: Message = Message {
    fields: &[
        kept(1, "type", Text),
        kept(2, "status", Text),
        omit(4, "lastTransitionTime", Time),
        omit(5, "reason", Text),
        omit(6, "message", Text),
    ],
};

static SECRET: Message = Message {
    fields: &[
        METADATA,
        map(2, "data", Bytes),
        omit(3, "type", Text),
        map(4, "stringData", Text),
        kept(5, "immutable", Bool),
    ],
};

static CONFIG_MAP: Message = Message {
    fields: &[
        METADATA,
        map(2, "data", Text),
        map(3, "binaryData", Bytes),
        kept(4, "immutable", Bool),
    ],
};

static SERVICE_ACCOUNT: Message = Message {
    fields: &[
        METADATA,
        list(2, "secrets", Nested(&OBJECT_REFERENCE)),
        list(3, "imagePullSecrets", Nested(&LOCAL_OBJECT_REFERENCE)),
        kept(4, "automountServiceAccountToken", Bool),
    ],
};

static OBJECT_REFERENCE: Message = Message {
    fields: &[
        omit(1, "kind", Text),
        omit(2, "namespace", Text),
        omit(3, "name", Text),
        omit(4, "uid", Text),
        omit(5, "apiVersion", Text),
        omit(6, "resourceVersion", Text),
        omit(7, "fieldPath", Text),
    ],
};

static LOCAL_OBJECT_REFERENCE: Message = Message {
    fields: &[omit(1, "name", Text)],
};

static CORE_EVENT: Message = Message {
    fields: &[
        METADATA,
        kept(2, "involvedObject", Nested(&OBJECT_REFERENCE)),
        omit(3, "reason", Text),
        omit(4, "message", Text),
        kept(5, "source", Nested(&EVENT_SOURCE)),
        omit(6, "firstTimestamp", Time),
        omit(7, "lastTimestamp", Time),
        omit(8, "count", Int32),
        omit(9, "type", Text),
        omit(10, "eventTime", MicroTime),
        kept(11, "series", Nested(&EVENT_SERIES)),
        omit(12, "action", Text),
        kept(13, "related", Nested(&OBJECT_REFERENCE)),
        kept(14, "reportingComponent", Text),
        kept(15, "reportingInstance", Text),
    ],
};

static EVENT_SOURCE: Message = Message {
    fields: &[omit(1, "component", Text), omit(2, "host", Text)],
};

/// The series of both groups: they differ only in the omission of a zero count, which does not occur.
static EVENT_SERIES: Message = Message {
    fields: &[
        omit(1, "count", Int32),
        omit(2, "lastObservedTime", MicroTime),
    ],
};

static EVENT: Message = Message {
    fields: &[
        METADATA,
        omit(2, "eventTime", MicroTime),
        kept(3, "series", Nested(&EVENT_SERIES)),
        omit(4, "reportingController", Text),
        omit(5, "reportingInstance", Text),
        omit(6, "action", Text),
        omit(7, "reason", Text),
        kept(8, "regarding", Nested(&OBJECT_REFERENCE)),
        kept(9, "related", Nested(&OBJECT_REFERENCE)),
        omit(10, "note", Text),
        omit(11, "type", Text),
        kept(12, "deprecatedSource", Nested(&EVENT_SOURCE)),
        omit(13, "deprecatedFirstTimestamp", Time),
        omit(14, "deprecatedLastTimestamp", Time),
        omit(15, "deprecatedCount", Int32),
    ],
};

static RESOURCE_QUOTA: Message = Message {
    fields: &[
        METADATA,
        kept(2, "spec", Nested(&RESOURCE_QUOTA_SPEC)),
        kept(3, "status", Nested(&RESOURCE_QUOTA_STATUS)),
    ],
};

static RESOURCE_QUOTA_SPEC: Message = Message {
    fields: &[
        map(1, "hard", Quantity),
        list(2, "scopes", Text),
        kept(3, "scopeSelector", Nested(&SCOPE_SELECTOR)),
    ],
};

static RESOURCE_QUOTA_STATUS: Message = Message {
    fields: &[map(1, "hard", Quantity), map(2, "used", Quantity)],
};

static SCOPE_SELECTOR: Message = Message {
    fields: &[list(1, "matchExpressions", Nested(&SCOPE_REQUIREMENT))],
};

static SCOPE_REQUIREMENT: Message = Message {
    fields: &[
        kept(1, "scopeName", Text),
        kept(2, "operator", Text),
        list(3, "values", Text),
    ],
};

static LEASE: Message = Message {
    fields: &[METADATA, kept(2, "spec", Nested(&LEASE_SPEC))],
};

static LEASE_SPEC: Message = Message {
    fields: &[
        kept(1, "holderIdentity", Text),
        kept(2, "leaseDurationSeconds", Int32),
        omit(3, "acquireTime", MicroTime),
        omit(4, "renewTime", MicroTime),
        kept(5, "leaseTransitions", Int32),
        kept(6, "strategy", Text),
        kept(7, "preferredHolder", Text),
    ],
};

static ROLE: Message = Message {
    fields: &[METADATA, list(2, "rules", Nested(&POLICY_RULE))],
};

static CLUSTER_ROLE: Message = Message {
    fields: &[
        METADATA,
        list(2, "rules", Nested(&POLICY_RULE)),
        kept(3, "aggregationRule", Nested(&AGGREGATION_RULE)),
    ],
};

static AGGREGATION_RULE: Message = Message {
    fields: &[list(1, "clusterRoleSelectors", Nested(&LABEL_SELECTOR))],
};

static POLICY_RULE: Message = Message {
    fields: &[
        list(1, "verbs", Text),
        list(2, "apiGroups", Text),
        list(3, "resources", Text),
        list(4, "resourceNames", Text),
        list(5, "nonResourceURLs", Text),
    ],
};

/// For roles and cluster roles.
static BINDING: Message = Message {
    fields: &[
        METADATA,
        list(2, "subjects", Nested(&SUBJECT)),
        kept(3, "roleRef", Nested(&ROLE_REF)),
    ],
};

static SUBJECT: Message = Message {
    fields: &[
        kept(1, "kind", Text),
        omit(2, "apiGroup", Text),
        kept(3, "name", Text),
        omit(4, "namespace", Text),
    ],
};

static ROLE_REF: Message = Message {
    fields: &[
        kept(1, "apiGroup", Text),
        kept(2, "kind", Text),
        kept(3, "name", Text),
    ],
};

static SUBJECT_ACCESS_REVIEW: Message = Message {
    fields: &[
        METADATA,
        kept(2, "spec", Nested(&SUBJECT_ACCESS_REVIEW_SPEC)),
        kept(3, "status", Nested(&ACCESS_REVIEW_STATUS)),
    ],
};

static SUBJECT_ACCESS_REVIEW_SPEC: Message = Message {
    fields: &[
        kept(1, "resourceAttributes", Nested(&RESOURCE_ATTRIBUTES)),
        kept(2, "nonResourceAttributes", Nested(&NON_RESOURCE_ATTRIBUTES)),
        omit(3, "user", Text),
        list(4, "groups", Text),
        map(5, "extra", Texts),
        omit(6, "uid", Text),
    ],
};

static SELF_SUBJECT_ACCESS_REVIEW: Message = Message {
    fields: &[
        METADATA,
        kept(2, "spec", Nested(&SELF_SUBJECT_ACCESS_REVIEW_SPEC)),
        kept(3, "status", Nested(&ACCESS_REVIEW_STATUS)),
    ],
};

static SELF_SUBJECT_ACCESS_REVIEW_SPEC: Message = Message {
    fields: &[
        kept(1, "resourceAttributes", Nested(&RESOURCE_ATTRIBUTES)),
        kept(2, "nonResourceAttributes", Nested(&NON_RESOURCE_ATTRIBUTES)),
    ],
};

static ACCESS_REVIEW_STATUS: Message = Message {
    fields: &[
        kept(1, "allowed", Bool),
        omit(2, "reason", Text),
        omit(3, "evaluationError", Text),
        omit(4, "denied", Bool),
    ],
};

static RESOURCE_ATTRIBUTES: Message = Message {
    fields: &[
        omit(1, "namespace", Text),
        omit(2, "verb", Text),
        omit(3, "group", Text),
        omit(4, "version", Text),
        omit(5, "resource", Text),
        omit(6, "subresource", Text),
        omit(7, "name", Text),
        kept(8, "fieldSelector", Nested(&SELECTOR_ATTRIBUTES)),
        kept(9, "labelSelector", Nested(&SELECTOR_ATTRIBUTES)),
    ],
};

/// For selectors of fields and of labels.
static SELECTOR_ATTRIBUTES: Message = Message {
    fields: &[
        omit(1, "rawSelector", Text),
        list(2, "requirements", Nested(&SELECTOR_REQUIREMENT)),
    ],
};

static NON_RESOURCE_ATTRIBUTES: Message = Message {
    fields: &[omit(1, "path", Text), omit(2, "verb", Text)],
};

static SELF_SUBJECT_RULES_REVIEW: Message = Message {
    fields: &[
        METADATA,
        kept(2, "spec", Nested(&RULES_REVIEW_SPEC)),
        kept(3, "status", Nested(&RULES_REVIEW_STATUS)),
    ],
};

static RULES_REVIEW_STATUS: Message = Message {
    fields: &[
        list(1, "resourceRules", Nested(&RESOURCE_RULE)),
        list(2, "nonResourceRules", Nested(&NON_RESOURCE_RULE)),
        kept(3, "incomplete", Bool),
        omit(4, "evaluationError", Text),
    ],
};

static RESOURCE_RULE: Message = Message {
    fields: &[
        list(1, "verbs", Text),
        list(2, "apiGroups", Text),
        list(3, "resources", Text),
        list(4, "resourceNames", Text),
    ],
};

static NON_RESOURCE_RULE: Message = Message {
    fields: &[list(1, "verbs", Text), list(2, "nonResourceURLs", Text)],
};

static RULES_REVIEW_SPEC: Message = Message {
    fields: &[omit(1, "namespace", Text)],
};

static TOKEN_REVIEW: Message = Message {
    fields: &[
        METADATA,
        kept(2, "spec", Nested(&TOKEN_REVIEW_SPEC)),
        kept(3, "status", Nested(&TOKEN_REVIEW_STATUS)),
    ],
};

static TOKEN_REVIEW_SPEC: Message = Message {
    fields: &[omit(1, "token", Text), list(2, "audiences", Text)],
};

static TOKEN_REVIEW_STATUS: Message = Message {
    fields: &[
        omit(1, "authenticated", Bool),
        kept(2, "user", Nested(&USER_INFO)),
        omit(3, "error", Text),
        list(4, "audiences", Text),
    ],
};

static SELF_SUBJECT_REVIEW: Message = Message {
    fields: &[METADATA, kept(2, "status", Nested(&SELF_REVIEW_STATUS))],
};

static SELF_REVIEW_STATUS: Message = Message {
    fields: &[kept(1, "userInfo", Nested(&USER_INFO))],
};

static USER_INFO: Message = Message {
    fields: &[
        omit(1, "username", Text),
        omit(2, "uid", Text),
        list(3, "groups", Text),
        map(4, "extra", Texts),
    ],
};
