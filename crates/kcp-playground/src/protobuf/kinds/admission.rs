//! Configurations of admission, and requests for certificates.

use super::Kind::{Bytes, Int32, Int64, Message as Nested, Text, Texts, Time};
use super::definitions::CLIENT_CONFIG;
use super::{LABEL_SELECTOR, METADATA, Message, inline, kept, list, map, omit};

pub(super) static MUTATING: Message = Message {
    fields: &[METADATA, list(2, "webhooks", Nested(&MUTATING_WEBHOOK))],
};

pub(super) static VALIDATING: Message = Message {
    fields: &[METADATA, list(2, "webhooks", Nested(&VALIDATING_WEBHOOK))],
};

static MUTATING_WEBHOOK: Message = Message {
    fields: &[
        kept(1, "name", Text),
        kept(2, "clientConfig", Nested(&CLIENT_CONFIG)),
        list(3, "rules", Nested(&RULE_WITH_OPERATIONS)),
        kept(4, "failurePolicy", Text),
        kept(5, "namespaceSelector", Nested(&LABEL_SELECTOR)),
        kept(6, "sideEffects", Text),
        kept(7, "timeoutSeconds", Int32),
        list(8, "admissionReviewVersions", Text),
        kept(9, "matchPolicy", Text),
        kept(10, "reinvocationPolicy", Text),
        kept(11, "objectSelector", Nested(&LABEL_SELECTOR)),
        list(12, "matchConditions", Nested(&MATCH_CONDITION)),
    ],
};

static VALIDATING_WEBHOOK: Message = Message {
    fields: &[
        kept(1, "name", Text),
        kept(2, "clientConfig", Nested(&CLIENT_CONFIG)),
        list(3, "rules", Nested(&RULE_WITH_OPERATIONS)),
        kept(4, "failurePolicy", Text),
        kept(5, "namespaceSelector", Nested(&LABEL_SELECTOR)),
        kept(6, "sideEffects", Text),
        kept(7, "timeoutSeconds", Int32),
        list(8, "admissionReviewVersions", Text),
        kept(9, "matchPolicy", Text),
        kept(10, "objectSelector", Nested(&LABEL_SELECTOR)),
        list(11, "matchConditions", Nested(&MATCH_CONDITION)),
    ],
};

static RULE_WITH_OPERATIONS: Message = Message {
    fields: &[list(1, "operations", Text), inline(2, &RULE)],
};

static RULE: Message = Message {
    fields: &[
        list(1, "apiGroups", Text),
        list(2, "apiVersions", Text),
        list(3, "resources", Text),
        kept(4, "scope", Text),
    ],
};

static MATCH_CONDITION: Message = Message {
    fields: &[kept(1, "name", Text), kept(2, "expression", Text)],
};

pub(super) static POLICY: Message = Message {
    fields: &[
        METADATA,
        kept(2, "spec", Nested(&POLICY_SPEC)),
        kept(3, "status", Nested(&POLICY_STATUS)),
    ],
};

static POLICY_SPEC: Message = Message {
    fields: &[
        kept(1, "paramKind", Nested(&PARAM_KIND)),
        kept(2, "matchConstraints", Nested(&MATCH_RESOURCES)),
        list(3, "validations", Nested(&VALIDATION)),
        kept(4, "failurePolicy", Text),
        list(5, "auditAnnotations", Nested(&AUDIT_ANNOTATION)),
        list(6, "matchConditions", Nested(&MATCH_CONDITION)),
        list(7, "variables", Nested(&VARIABLE)),
    ],
};

static PARAM_KIND: Message = Message {
    fields: &[omit(1, "apiVersion", Text), omit(2, "kind", Text)],
};

static MATCH_RESOURCES: Message = Message {
    fields: &[
        kept(1, "namespaceSelector", Nested(&LABEL_SELECTOR)),
        kept(2, "objectSelector", Nested(&LABEL_SELECTOR)),
        list(3, "resourceRules", Nested(&NAMED_RULE)),
        list(4, "excludeResourceRules", Nested(&NAMED_RULE)),
        kept(7, "matchPolicy", Text),
    ],
};

static NAMED_RULE: Message = Message {
    fields: &[
        list(1, "resourceNames", Text),
        inline(2, &RULE_WITH_OPERATIONS),
    ],
};

static VALIDATION: Message = Message {
    fields: &[
        kept(1, "expression", Text),
        omit(2, "message", Text),
        kept(3, "reason", Text),
        omit(4, "messageExpression", Text),
    ],
};

static AUDIT_ANNOTATION: Message = Message {
    fields: &[kept(1, "key", Text), kept(2, "valueExpression", Text)],
};

static VARIABLE: Message = Message {
    fields: &[kept(1, "name", Text), kept(2, "expression", Text)],
};

static POLICY_STATUS: Message = Message {
    fields: &[
        omit(1, "observedGeneration", Int64),
        kept(2, "typeChecking", Nested(&TYPE_CHECKING)),
        list(3, "conditions", Nested(&CONDITION)),
    ],
};

static TYPE_CHECKING: Message = Message {
    fields: &[list(1, "expressionWarnings", Nested(&EXPRESSION_WARNING))],
};

static EXPRESSION_WARNING: Message = Message {
    fields: &[kept(2, "fieldRef", Text), kept(3, "warning", Text)],
};

static CONDITION: Message = Message {
    fields: &[
        kept(1, "type", Text),
        kept(2, "status", Text),
        omit(3, "observedGeneration", Int64),
        kept(4, "lastTransitionTime", Time),
        kept(5, "reason", Text),
        kept(6, "message", Text),
    ],
};

pub(super) static POLICY_BINDING: Message = Message {
    fields: &[METADATA, kept(2, "spec", Nested(&POLICY_BINDING_SPEC))],
};

static POLICY_BINDING_SPEC: Message = Message {
    fields: &[
        omit(1, "policyName", Text),
        kept(2, "paramRef", Nested(&PARAM_REF)),
        kept(3, "matchResources", Nested(&MATCH_RESOURCES)),
        list(4, "validationActions", Text),
    ],
};

static PARAM_REF: Message = Message {
    fields: &[
        omit(1, "name", Text),
        omit(2, "namespace", Text),
        kept(3, "selector", Nested(&LABEL_SELECTOR)),
        kept(4, "parameterNotFoundAction", Text),
    ],
};

pub(super) static CERTIFICATE_REQUEST: Message = Message {
    fields: &[
        METADATA,
        kept(2, "spec", Nested(&CERTIFICATE_SPEC)),
        kept(3, "status", Nested(&CERTIFICATE_STATUS)),
    ],
};

static CERTIFICATE_SPEC: Message = Message {
    fields: &[
        kept(1, "request", Bytes),
        omit(2, "username", Text),
        omit(3, "uid", Text),
        list(4, "groups", Text),
        list(5, "usages", Text),
        map(6, "extra", Texts),
        kept(7, "signerName", Text),
        kept(8, "expirationSeconds", Int32),
    ],
};

static CERTIFICATE_STATUS: Message = Message {
    fields: &[
        list(1, "conditions", Nested(&CERTIFICATE_CONDITION)),
        omit(2, "certificate", Bytes),
    ],
};

static CERTIFICATE_CONDITION: Message = Message {
    fields: &[
        kept(1, "type", Text),
        omit(2, "reason", Text),
        omit(3, "message", Text),
        omit(4, "lastUpdateTime", Time),
        omit(5, "lastTransitionTime", Time),
        kept(6, "status", Text),
    ],
};
