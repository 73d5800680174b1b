//! Bounds of numbers. Integers are compared as integers: like the server, this truncates the fraction of a bound.

use serde_json::{Number, Value};

use super::keywords::{Type, flag, text};
use kube_lang::go_text::float_text;

#[derive(Clone, Debug, Default)]
pub(super) struct Bounds {
    maximum: Option<f64>,
    minimum: Option<f64>,
    exclusive_maximum: bool,
    exclusive_minimum: bool,
    multiple_of: Option<f64>,
    capacity: Capacity,
}

/// The range of a number's type and format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Capacity {
    #[default]
    Any,
    Integer,
    Int32,
    Int64,
    Number,
    Float,
    Double,
}

/// A rule that a number breaks.
pub(super) enum Broken {
    /// The number as it was compared, and the rule. The message begins with the name of the field: `should be less than
    /// 3`.
    Rule(Value, String),
    /// A message that names no field.
    Range(String),
    /// A factor that no number can be a multiple of, and its message.
    Factor(Value, String),
}

impl Bounds {
    pub(super) fn of(schema: &Value, types: &[Type]) -> Self {
        let number = |keyword: &str| schema.get(keyword).and_then(Value::as_f64);
        let capacity = match (types, text(schema, "format")) {
            ([Type::Integer], "int32") => Capacity::Int32,
            ([Type::Integer], "int64") => Capacity::Int64,
            ([Type::Integer], _) => Capacity::Integer,
            ([Type::Number], "float") => Capacity::Float,
            ([Type::Number], "double") => Capacity::Double,
            ([Type::Number], _) => Capacity::Number,
            _ => Capacity::Any,
        };
        Self {
            maximum: number("maximum"),
            minimum: number("minimum"),
            exclusive_maximum: flag(schema, "exclusiveMaximum"),
            exclusive_minimum: flag(schema, "exclusiveMinimum"),
            multiple_of: number("multipleOf"),
            capacity,
        }
    }

    pub(super) fn check(&self, number: &Number, name: &str) -> Vec<Broken> {
        let mut broken = Vec::new();
        let float = number.as_f64().unwrap_or_default();
        let integer = number.as_i64();
        let fits = match integer {
            Some(integer) => self.capacity.holds_integer(integer),
            None => self.capacity.holds(float),
        };
        if !fits {
            broken.push(self.capacity.message("Checked", name));
        }
        if let Some(factor) = self.multiple_of {
            broken.extend(self.multiple(integer, float, factor, name));
        }
        if let Some(minimum) = self.minimum {
            let rule = if self.exclusive_minimum {
                "should be greater than"
            } else {
                "should be greater than or equal to"
            };
            let exclusive = self.exclusive_minimum;
            let bound = Bound {
                at: minimum,
                rule,
                what: "Minimum boundary",
            };
            broken.extend(
                self.bound(&bound, (integer, float), name, |bound| match bound {
                    Ok((i, bound)) => i < bound || (exclusive && i == bound),
                    Err(bound) => float < bound || (exclusive && float <= bound),
                }),
            );
        }
        if let Some(maximum) = self.maximum {
            let rule = if self.exclusive_maximum {
                "should be less than"
            } else {
                "should be less than or equal to"
            };
            let exclusive = self.exclusive_maximum;
            let bound = Bound {
                at: maximum,
                rule,
                what: "Maximum boundary",
            };
            broken.extend(
                self.bound(&bound, (integer, float), name, |bound| match bound {
                    Ok((i, bound)) => i > bound || (exclusive && i == bound),
                    Err(bound) => float > bound || (exclusive && float >= bound),
                }),
            );
        }
        broken
    }

    /// Compares as integers if the number is one and the bound fits, else as doubles.
    fn bound(
        &self,
        bound: &Bound,
        (integer, float): (Option<i64>, f64),
        name: &str,
        outside: impl Fn(Result<(i64, i64), f64>) -> bool,
    ) -> Vec<Broken> {
        let mut broken = Vec::new();
        let native = self.capacity.holds(bound.at);
        if !native {
            broken.push(self.capacity.message(bound.what, name));
        }
        let (is_outside, shown) = match integer {
            Some(integer) if native => {
                let at = truncate(bound.at);
                (outside(Ok((integer, at))), at.to_string())
            }
            _ => (outside(Err(bound.at)), float_text(bound.at)),
        };
        if is_outside {
            let bad = compared(integer.filter(|_| native), float);
            broken.push(Broken::Rule(bad, format!("{} {shown}", bound.rule)));
        }
        broken
    }

    fn multiple(&self, integer: Option<i64>, float: f64, factor: f64, name: &str) -> Vec<Broken> {
        let mut broken = Vec::new();
        let native = self.capacity.holds(factor);
        if !native {
            broken.push(self.capacity.message("MultipleOf", name));
        }
        let (positive, fits, shown) = match integer {
            Some(integer) if native => {
                let factor = truncate(factor);
                let fits = factor > 0 && integer % factor == 0;
                (factor > 0, fits, factor.to_string())
            }
            _ => {
                let times = if factor < 1.0 {
                    1.0 / factor * float
                } else {
                    float / factor
                };
                (factor > 0.0, is_whole(times), float_text(factor))
            }
        };
        if !positive {
            let factor = match integer {
                Some(_) if native => truncate(factor).into(),
                _ => factor.into(),
            };
            broken.push(Broken::Factor(
                factor,
                format!("factor MultipleOf declared for {name} must be positive: {shown}"),
            ));
        } else if !fits {
            let bad = compared(integer.filter(|_| native), float);
            broken.push(Broken::Rule(
                bad,
                format!("should be a multiple of {shown}"),
            ));
        }
        broken
    }
}

/// A number, with the type in which it was compared.
fn compared(integer: Option<i64>, float: f64) -> Value {
    integer.map_or_else(|| float.into(), Into::into)
}

struct Bound {
    at: f64,
    rule: &'static str,
    what: &'static str,
}

/// The first double that is not a 64-bit integer.
const I64_EDGE: f64 = 9_223_372_036_854_775_808.0;

impl Capacity {
    fn holds_integer(self, integer: i64) -> bool {
        self != Self::Int32 || i32::try_from(integer).is_ok()
    }

    fn holds(self, float: f64) -> bool {
        match self {
            Self::Any | Self::Number | Self::Double => true,
            Self::Float => float.abs() <= f64::from(f32::MAX),
            Self::Integer | Self::Int64 => {
                float.fract() == 0.0 && -I64_EDGE < float && float < I64_EDGE
            }
            Self::Int32 => {
                float.fract() == 0.0 && (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&float)
            }
        }
    }

    fn message(self, what: &str, name: &str) -> Broken {
        let kind = match self {
            Self::Any => "",
            Self::Integer | Self::Int32 | Self::Int64 => "integer",
            Self::Number | Self::Float | Self::Double => "number",
        };
        let format = match self {
            Self::Any | Self::Integer | Self::Number => None,
            Self::Int32 => Some("int32"),
            Self::Int64 => Some("int64"),
            Self::Float => Some("float"),
            Self::Double => Some("double"),
        };
        Broken::Range(match format {
            Some(format) => {
                format!("{what} value must be of type {kind} with format {format} in {name}")
            }
            None => format!("{what} value must be of type {kind} (default format) in {name}"),
        })
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "bounds of integers lose their fraction"
)]
fn truncate(float: f64) -> i64 {
    float as i64
}

/// Whether a double is an integer, apart from rounding errors.
pub(super) fn is_whole(float: f64) -> bool {
    const EXACT: f64 = 9_007_199_254_740_991.0;
    if !float.is_finite() || float.abs() > EXACT {
        return false;
    }
    let whole = float.trunc();
    let difference = (float - whole).abs();
    difference == 0.0 || (whole != 0.0 && difference / (float.abs() + whole.abs()) < 1e-9)
}
