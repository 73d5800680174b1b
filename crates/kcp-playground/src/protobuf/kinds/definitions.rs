//! Definitions of custom resources, with the schemas in them.

use super::Kind::{
    Bool, Bytes, Double, Int32, Int64, Message as Nested, OneOf, RawJson, Text, Time,
};
use super::{METADATA, Message, kept, list, map, omit};

pub(super) static DEFINITION: Message = Message {
    fields: &[
        METADATA,
        kept(2, "spec", Nested(&SPEC)),
        kept(3, "status", Nested(&STATUS)),
    ],
};

static SPEC: Message = Message {
    fields: &[
        kept(1, "group", Text),
        kept(3, "names", Nested(&NAMES)),
        kept(4, "scope", Text),
        list(7, "versions", Nested(&VERSION)),
        kept(9, "conversion", Nested(&CONVERSION)),
        omit(10, "preserveUnknownFields", Bool),
    ],
};

static NAMES: Message = Message {
    fields: &[
        kept(1, "plural", Text),
        omit(2, "singular", Text),
        list(3, "shortNames", Text),
        kept(4, "kind", Text),
        omit(5, "listKind", Text),
        list(6, "categories", Text),
    ],
};

static VERSION: Message = Message {
    fields: &[
        kept(1, "name", Text),
        kept(2, "served", Bool),
        kept(3, "storage", Bool),
        kept(4, "schema", Nested(&VALIDATION)),
        kept(5, "subresources", Nested(&SUBRESOURCES)),
        list(6, "additionalPrinterColumns", Nested(&COLUMN)),
        omit(7, "deprecated", Bool),
        kept(8, "deprecationWarning", Text),
        list(9, "selectableFields", Nested(&SELECTABLE)),
    ],
};

static VALIDATION: Message = Message {
    fields: &[kept(1, "openAPIV3Schema", Nested(&SCHEMA))],
};

static SUBRESOURCES: Message = Message {
    fields: &[
        kept(1, "status", Nested(&Message { fields: &[] })),
        kept(2, "scale", Nested(&SCALE)),
    ],
};

static SCALE: Message = Message {
    fields: &[
        kept(1, "specReplicasPath", Text),
        kept(2, "statusReplicasPath", Text),
        kept(3, "labelSelectorPath", Text),
    ],
};

static COLUMN: Message = Message {
    fields: &[
        kept(1, "name", Text),
        kept(2, "type", Text),
        omit(3, "format", Text),
        omit(4, "description", Text),
        omit(5, "priority", Int32),
        kept(6, "jsonPath", Text),
    ],
};

static SELECTABLE: Message = Message {
    fields: &[kept(1, "jsonPath", Text)],
};

static CONVERSION: Message = Message {
    fields: &[
        kept(1, "strategy", Text),
        kept(2, "webhook", Nested(&WEBHOOK)),
    ],
};

static WEBHOOK: Message = Message {
    fields: &[
        kept(2, "clientConfig", Nested(&CLIENT_CONFIG)),
        list(3, "conversionReviewVersions", Text),
    ],
};

pub(super) static CLIENT_CONFIG: Message = Message {
    fields: &[
        kept(1, "service", Nested(&SERVICE)),
        omit(2, "caBundle", Bytes),
        kept(3, "url", Text),
    ],
};

static SERVICE: Message = Message {
    fields: &[
        kept(1, "namespace", Text),
        kept(2, "name", Text),
        kept(3, "path", Text),
        kept(4, "port", Int32),
    ],
};

static STATUS: Message = Message {
    fields: &[
        list(1, "conditions", Nested(&CONDITION)),
        kept(2, "acceptedNames", Nested(&NAMES)),
        list(3, "storedVersions", Text),
        omit(4, "observedGeneration", Int64),
    ],
};

static CONDITION: Message = Message {
    fields: &[
        kept(1, "type", Text),
        kept(2, "status", Text),
        omit(3, "lastTransitionTime", Time),
        omit(4, "reason", Text),
        omit(5, "message", Text),
        omit(6, "observedGeneration", Int64),
    ],
};

static SCHEMA: Message = Message {
    fields: &[
        omit(1, "id", Text),
        omit(2, "$schema", Text),
        kept(3, "$ref", Text),
        omit(4, "description", Text),
        omit(5, "type", Text),
        omit(6, "format", Text),
        omit(7, "title", Text),
        kept(8, "default", RawJson),
        kept(9, "maximum", Double),
        omit(10, "exclusiveMaximum", Bool),
        kept(11, "minimum", Double),
        omit(12, "exclusiveMinimum", Bool),
        kept(13, "maxLength", Int64),
        kept(14, "minLength", Int64),
        omit(15, "pattern", Text),
        kept(16, "maxItems", Int64),
        kept(17, "minItems", Int64),
        omit(18, "uniqueItems", Bool),
        kept(19, "multipleOf", Double),
        list(20, "enum", RawJson),
        kept(21, "maxProperties", Int64),
        kept(22, "minProperties", Int64),
        list(23, "required", Text),
        kept(24, "items", OneOf(&SCHEMA_OR_LIST)),
        list(25, "allOf", Nested(&SCHEMA)),
        list(26, "oneOf", Nested(&SCHEMA)),
        list(27, "anyOf", Nested(&SCHEMA)),
        kept(28, "not", Nested(&SCHEMA)),
        map(29, "properties", Nested(&SCHEMA)),
        kept(30, "additionalProperties", OneOf(&SCHEMA_OR_FLAG)),
        map(31, "patternProperties", Nested(&SCHEMA)),
        map(32, "dependencies", OneOf(&SCHEMA_OR_TEXTS)),
        kept(33, "additionalItems", OneOf(&SCHEMA_OR_FLAG)),
        map(34, "definitions", Nested(&SCHEMA)),
        kept(35, "externalDocs", Nested(&EXTERNAL)),
        kept(36, "example", RawJson),
        omit(37, "nullable", Bool),
        kept(38, "x-kubernetes-preserve-unknown-fields", Bool),
        omit(39, "x-kubernetes-embedded-resource", Bool),
        omit(40, "x-kubernetes-int-or-string", Bool),
        list(41, "x-kubernetes-list-map-keys", Text),
        kept(42, "x-kubernetes-list-type", Text),
        kept(43, "x-kubernetes-map-type", Text),
        list(44, "x-kubernetes-validations", Nested(&RULE)),
    ],
};

/// In each of these, the first that was sent is the value.
static SCHEMA_OR_LIST: Message = Message {
    fields: &[
        kept(1, "schema", Nested(&SCHEMA)),
        list(2, "schemas", Nested(&SCHEMA)),
    ],
};

static SCHEMA_OR_FLAG: Message = Message {
    fields: &[kept(2, "schema", Nested(&SCHEMA)), kept(1, "allows", Bool)],
};

static SCHEMA_OR_TEXTS: Message = Message {
    fields: &[
        kept(1, "schema", Nested(&SCHEMA)),
        list(2, "property", Text),
    ],
};

static EXTERNAL: Message = Message {
    fields: &[omit(1, "description", Text), omit(2, "url", Text)],
};

static RULE: Message = Message {
    fields: &[
        kept(1, "rule", Text),
        omit(2, "message", Text),
        omit(3, "messageExpression", Text),
        kept(4, "reason", Text),
        omit(5, "fieldPath", Text),
        kept(6, "optionalOldSelf", Bool),
    ],
};
