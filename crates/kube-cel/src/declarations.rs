//! The functions that expressions may call, with the types of their parameters and results.

use std::{collections::HashMap, sync::LazyLock};

use super::types::Type;

/// The functions and macros that an expression may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Library {
    /// Those of the language itself.
    Standard,
    /// Those that rules of schemas have: strings, lists, optional values, quantities and so on. What is written out and
    /// wrong is refused, as are lists of mixed types.
    Kubernetes,
}

/// Operators and functions called as `f(x)`.
const GLOBAL: &str = "
_?_:_: bool A A -> A
_&&_: bool bool -> bool
_||_: bool bool -> bool
!_: bool -> bool
@not_strictly_false: bool -> bool
_==_: A A -> bool
_!=_: A A -> bool
_+_: bytes bytes -> bytes | double double -> double | duration duration -> duration | duration timestamp -> timestamp | timestamp duration -> timestamp | int int -> int | list(A) list(A) -> list(A) | string string -> string | uint uint -> uint
_-_: double double -> double | duration duration -> duration | int int -> int | timestamp duration -> timestamp | timestamp timestamp -> duration | uint uint -> uint
_*_: double double -> double | int int -> int | uint uint -> uint
_/_: double double -> double | int int -> int | uint uint -> uint
_%_: int int -> int | uint uint -> uint
-_: double -> double | int -> int
_<_: #compared
_<=_: #compared
_>_: #compared
_>=_: #compared
_[_]: list(A) int -> A | map(A,B) A -> B
@in: A list(A) -> bool | A map(A,B) -> bool
size: bytes -> int | list(A) -> int | map(A,B) -> int | string -> int
type: A -> type(A)
dyn: A -> dyn
bool: bool -> bool | string -> bool
bytes: bytes -> bytes | string -> bytes
double: double -> double | int -> double | string -> double | uint -> double
duration: duration -> duration | int -> duration | string -> duration
int: int -> int | double -> int | duration -> int | string -> int | timestamp -> int | uint -> int
string: string -> string | bool -> string | bytes -> string | double -> string | duration -> string | int -> string | timestamp -> string | uint -> string
timestamp: timestamp -> timestamp | int -> timestamp | string -> timestamp
uint: uint -> uint | double -> uint | int -> uint | string -> uint
matches: string string -> bool
";

/// The same, of the libraries that Kubernetes adds.
const MORE_GLOBAL: &str = "
_<_: #mixed
_<=_: #mixed
_>_: #mixed
_>=_: #mixed
_[_]: optional(list(A)) int -> optional(A) | optional(map(A,B)) A -> optional(B)
string: net.IP -> string | net.CIDR -> string
_[?_]: list(A) int -> optional(A) | optional(list(A)) int -> optional(A) | map(A,B) A -> optional(B) | optional(map(A,B)) A -> optional(B)
strings.quote: string -> string
optional.of: A -> optional(A)
optional.ofNonZeroValue: A -> optional(A)
optional.none: -> optional(A)
optional.unwrap: list(optional(A)) -> list(A)
lists.range: int -> list(int)
sets.contains: list(A) list(A) -> bool
sets.equivalent: list(A) list(A) -> bool
sets.intersects: list(A) list(A) -> bool
url: string -> kubernetes.URL
isURL: string -> bool
ip: string -> net.IP
isIP: string -> bool
ip.isCanonical: string -> bool
cidr: string -> net.CIDR
isCIDR: string -> bool
quantity: string -> kubernetes.Quantity
isQuantity: string -> bool
sign: kubernetes.Quantity -> int
semver: string -> kubernetes.Semver | string bool -> kubernetes.Semver
isSemver: string -> bool | string bool -> bool
format.named: string -> optional(kubernetes.NamedFormat)
format.dns1123Label: -> kubernetes.NamedFormat
format.dns1123Subdomain: -> kubernetes.NamedFormat
format.dns1035Label: -> kubernetes.NamedFormat
format.qualifiedName: -> kubernetes.NamedFormat
format.dns1123LabelPrefix: -> kubernetes.NamedFormat
format.dns1123SubdomainPrefix: -> kubernetes.NamedFormat
format.dns1035LabelPrefix: -> kubernetes.NamedFormat
format.labelValue: -> kubernetes.NamedFormat
format.uri: -> kubernetes.NamedFormat
format.uuid: -> kubernetes.NamedFormat
format.byte: -> kubernetes.NamedFormat
format.date: -> kubernetes.NamedFormat
format.datetime: -> kubernetes.NamedFormat
@mapInsert: map(A,B) A B -> map(A,B) | map(A,B) map(A,B) -> map(A,B)
";

/// Functions called as `x.f()`; `x` comes first.
const MEMBER: &str = "
contains: string string -> bool
startsWith: string string -> bool
endsWith: string string -> bool
matches: string string -> bool
size: bytes -> int | list(A) -> int | map(A,B) -> int | string -> int
getDate: timestamp -> int | timestamp string -> int
getDayOfMonth: timestamp -> int | timestamp string -> int
getDayOfWeek: timestamp -> int | timestamp string -> int
getDayOfYear: timestamp -> int | timestamp string -> int
getFullYear: timestamp -> int | timestamp string -> int
getMonth: timestamp -> int | timestamp string -> int
getHours: timestamp -> int | timestamp string -> int | duration -> int
getMilliseconds: timestamp -> int | timestamp string -> int | duration -> int
getMinutes: timestamp -> int | timestamp string -> int | duration -> int
getSeconds: timestamp -> int | timestamp string -> int | duration -> int
";

/// The same, of the libraries that Kubernetes adds.
const MORE_MEMBER: &str = "
charAt: string int -> string
indexOf: string string -> int | string string int -> int | list(A) A -> int
lastIndexOf: string string -> int | string string int -> int | list(A) A -> int
join: list(string) -> string | list(string) string -> string
lowerAscii: string -> string
upperAscii: string -> string
replace: string string string -> string | string string string int -> string
split: string string -> list(string) | string string int -> list(string)
substring: string int -> string | string int int -> string
trim: string -> string
format: string list(dyn) -> string
find: string string -> string
findAll: string string -> list(string) | string string int -> list(string)
isSorted: list(int) -> bool | list(uint) -> bool | list(double) -> bool | list(bool) -> bool | list(duration) -> bool | list(timestamp) -> bool | list(string) -> bool | list(bytes) -> bool
sum: list(int) -> int | list(uint) -> uint | list(double) -> double | list(duration) -> duration
min: #extreme
max: #extreme
slice: list(A) int int -> list(A)
flatten: list(list(A)) -> list(A) | list(dyn) int -> list(dyn)
sort: list(int) -> list(int) | list(uint) -> list(uint) | list(double) -> list(double) | list(bool) -> list(bool) | list(duration) -> list(duration) | list(timestamp) -> list(timestamp) | list(string) -> list(string) | list(bytes) -> list(bytes)
distinct: list(A) -> list(A)
reverse: list(A) -> list(A)
first: list(A) -> optional(A)
last: list(A) -> optional(A)
unwrapOpt: list(optional(A)) -> list(A)
value: optional(A) -> A
hasValue: optional(A) -> bool
or: optional(A) optional(A) -> optional(A)
orValue: optional(A) A -> A
getScheme: kubernetes.URL -> string
getHost: kubernetes.URL -> string
getHostname: kubernetes.URL -> string
getPort: kubernetes.URL -> string
getEscapedPath: kubernetes.URL -> string
getQuery: kubernetes.URL -> map(string,list(string))
family: net.IP -> int
isUnspecified: net.IP -> bool
isLoopback: net.IP -> bool
isLinkLocalMulticast: net.IP -> bool
isLinkLocalUnicast: net.IP -> bool
isGlobalUnicast: net.IP -> bool
containsIP: net.CIDR string -> bool | net.CIDR net.IP -> bool
containsCIDR: net.CIDR string -> bool | net.CIDR net.CIDR -> bool
ip: net.CIDR -> net.IP
masked: net.CIDR -> net.CIDR
prefixLength: net.CIDR -> int
isInteger: kubernetes.Quantity -> bool
asInteger: kubernetes.Quantity -> int
asApproximateFloat: kubernetes.Quantity -> double
add: kubernetes.Quantity kubernetes.Quantity -> kubernetes.Quantity | kubernetes.Quantity int -> kubernetes.Quantity
sub: kubernetes.Quantity kubernetes.Quantity -> kubernetes.Quantity | kubernetes.Quantity int -> kubernetes.Quantity
compareTo: kubernetes.Quantity kubernetes.Quantity -> int | kubernetes.Semver kubernetes.Semver -> int
isGreaterThan: kubernetes.Quantity kubernetes.Quantity -> bool | kubernetes.Semver kubernetes.Semver -> bool
isLessThan: kubernetes.Quantity kubernetes.Quantity -> bool | kubernetes.Semver kubernetes.Semver -> bool
major: kubernetes.Semver -> int
minor: kubernetes.Semver -> int
patch: kubernetes.Semver -> int
validate: kubernetes.NamedFormat string -> optional(list(string))
";

const COMPARED: &str = "bool bool -> bool | int int -> bool | uint uint -> bool | double double -> bool | string string -> bool | bytes bytes -> bool | timestamp timestamp -> bool | duration duration -> bool";
const MIXED: &str = "int double -> bool | int uint -> bool | uint double -> bool | uint int -> bool | double int -> bool | double uint -> bool";
const EXTREME: &str = "list(int) -> int | list(uint) -> uint | list(double) -> double | list(bool) -> bool | list(duration) -> duration | list(timestamp) -> timestamp | list(string) -> string | list(bytes) -> bytes";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Global,
    Member,
}

/// One way to call a function.
pub(super) struct Overload {
    library: Library,
    pub(super) style: Style,
    pub(super) takes: Vec<Type>,
    pub(super) gives: Type,
}

/// The largest number of type parameters of a declaration.
pub(super) const FREE: u32 = 2;

static FUNCTIONS: LazyLock<HashMap<&'static str, Vec<Overload>>> = LazyLock::new(|| {
    let mut functions: HashMap<_, Vec<_>> = HashMap::new();
    for (style, library, table) in [
        (Style::Global, Library::Standard, GLOBAL),
        (Style::Global, Library::Kubernetes, MORE_GLOBAL),
        (Style::Member, Library::Standard, MEMBER),
        (Style::Member, Library::Kubernetes, MORE_MEMBER),
    ] {
        for line in table.lines() {
            let Some((name, overloads)) = line.rsplit_once(": ") else {
                continue;
            };
            let overloads = match overloads {
                "#compared" => COMPARED,
                "#mixed" => MIXED,
                "#extreme" => EXTREME,
                written => written,
            };
            let parsed = overloads
                .split('|')
                .filter_map(|one| overload(style, library, one));
            functions.entry(name).or_default().extend(parsed);
        }
    }
    functions
});

/// All that a name can mean; `None` for a name that means nothing.
pub(super) fn find(name: &str, library: Library) -> Option<Vec<&'static Overload>> {
    let known = |overload: &&Overload| overload.library <= library;
    let found: Vec<_> = FUNCTIONS.get(name)?.iter().filter(known).collect();
    (!found.is_empty()).then_some(found)
}

/// The type that a name stands for.
pub(super) fn named_type(name: &str, library: Library) -> Option<Type> {
    Some(match name {
        "google.protobuf.Timestamp" => Type::Time,
        "google.protobuf.Duration" => Type::Duration,
        "null_type" => Type::Null,
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "optional_type" if library == Library::Kubernetes => Type::optional(Type::Dyn),
        "bool" | "bytes" | "double" | "int" | "string" | "uint" => parse(name)?,
        "type" => Type::Kind(Type::Dyn.into()),
        _ => return None,
    })
}

fn overload(style: Style, library: Library, text: &str) -> Option<Overload> {
    let (takes, gives) = text.split_once("->")?;
    Some(Overload {
        library,
        style,
        takes: takes.split_whitespace().filter_map(parse).collect(),
        gives: parse(gives.trim())?,
    })
}

fn parse(text: &str) -> Option<Type> {
    let inside = |outer: &str| {
        text.strip_prefix(outer)
            .and_then(|rest| rest.strip_prefix('('))
            .and_then(|rest| rest.strip_suffix(')'))
    };
    if let Some(inner) = inside("list") {
        return Some(Type::list(parse(inner)?));
    }
    if let Some(inner) = inside("map") {
        let (key, value) = inner.split_once(',')?;
        return Some(Type::map(parse(key)?, parse(value)?));
    }
    if let Some(inner) = inside("optional") {
        return Some(Type::optional(parse(inner)?));
    }
    if let Some(inner) = inside("type") {
        return Some(Type::Kind(parse(inner)?.into()));
    }
    Some(match text {
        "A" => Type::Free(0),
        "B" => Type::Free(1),
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::Text,
        "bytes" => Type::Bytes,
        "duration" => Type::Duration,
        "timestamp" => Type::Time,
        "dyn" => Type::Dyn,
        "net.IP" => Type::Opaque("net.IP"),
        "net.CIDR" => Type::Opaque("net.CIDR"),
        "kubernetes.URL" => Type::Opaque("kubernetes.URL"),
        "kubernetes.Quantity" => Type::Opaque("kubernetes.Quantity"),
        "kubernetes.Semver" => Type::Opaque("kubernetes.Semver"),
        "kubernetes.NamedFormat" => Type::Opaque("kubernetes.NamedFormat"),
        _ => return None,
    })
}
