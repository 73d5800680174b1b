//! Quantities: `1500m`, `2Gi`, `1e3`.

/// In units of 10⁻⁹, beyond which nothing is told apart.
#[derive(Clone, Debug)]
pub struct Quantity(pub(crate) i128);

pub(crate) const UNIT: i128 = 1_000_000_000;

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

/// Checks the syntax of a quantity.
pub fn check_quantity(text: &str) -> Result<(), String> {
    parse(text).map(drop)
}

/// The value of a quantity in units of 10⁻⁹, rounded up.
pub fn quantity_in_billionths(text: &str) -> Result<i128, String> {
    parse(text).map(|quantity| quantity.0)
}

pub(crate) fn parse(text: &str) -> Result<Quantity, String> {
    let wrong = || {
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            .to_owned()
    };
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = rest
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(wrong());
    }
    let scale = Scale::parse(suffix).ok_or_else(wrong)?;
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    let places = i32::try_from(fraction.len()).unwrap_or(i32::MAX);
    let value = scale.applied(digits, places);
    Ok(Quantity(if negative { -value } else { value }))
}

/// The multiplier of a suffix.
enum Scale {
    Ten(i32),
    Two(u32),
}

impl Scale {
    fn parse(suffix: &str) -> Option<Self> {
        Some(match suffix {
            "n" => Self::Ten(-9),
            "u" => Self::Ten(-6),
            "m" => Self::Ten(-3),
            "" => Self::Ten(0),
            "k" => Self::Ten(3),
            "M" => Self::Ten(6),
            "G" => Self::Ten(9),
            "T" => Self::Ten(12),
            "P" => Self::Ten(15),
            "E" => Self::Ten(18),
            "Ki" => Self::Two(10),
            "Mi" => Self::Two(20),
            "Gi" => Self::Two(30),
            "Ti" => Self::Two(40),
            "Pi" => Self::Two(50),
            "Ei" => Self::Two(60),
            other => {
                let exponent = other.strip_prefix(['e', 'E'])?;
                let bounded: i32 = exponent.parse().ok()?;
                Self::Ten(bounded)
            }
        })
    }

    /// Digits with a point so many places from their end, in units of 10⁻⁹, rounded up; what is too
    /// large is as large as can be.
    fn applied(&self, digits: &str, places: i32) -> i128 {
        let (mut value, shift) = match self {
            Self::Ten(power) => (
                parse_digits(digits),
                power.saturating_add(9).saturating_sub(places),
            ),
            Self::Two(power) => (
                parse_digits(digits).and_then(|value| value.checked_mul(1_i128 << power)),
                9_i32.saturating_sub(places),
            ),
        };
        if value == Some(0) {
            return 0;
        }
        let mut left = shift;
        while left > 0 && value.is_some() {
            value = value.and_then(|value| value.checked_mul(10));
            left -= 1;
        }
        let Some(mut value) = value else {
            return i128::MAX;
        };
        if left < 0 {
            let Some(by) = 10_i128.checked_pow(left.unsigned_abs()) else {
                return 1;
            };
            let rest = value % by;
            value /= by;
            if rest != 0 {
                value += 1;
            }
        }
        value
    }
}

fn parse_digits(digits: &str) -> Option<i128> {
    if digits.is_empty() {
        return Some(0);
    }
    digits.parse().ok()
}

impl Quantity {
    pub(crate) fn as_integer(&self) -> Option<i64> {
        if self.0 % UNIT == 0 {
            i64::try_from(self.0 / UNIT).ok()
        } else {
            None
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "it is approximate by its name")]
    pub(crate) fn approximate(&self) -> f64 {
        self.0 as f64 / UNIT as f64
    }
}
