//! Arithmetic of numbers, times and durations. An overflow is an error.

use std::rc::Rc;

use crate::{
    fault::{Fault, Meter, no_overload},
    time::Time,
    value::{Answer, Val},
};

pub(super) fn binary<'a>(name: &str, a: &Val<'a>, b: &Val<'a>, meter: &Meter) -> Answer<'a> {
    match (a, b) {
        (Val::Int(a), Val::Int(b)) => ints(name, *a, *b),
        (Val::Uint(a), Val::Uint(b)) => uints(name, *a, *b),
        (Val::Double(a), Val::Double(b)) => Ok(Val::Double(match name {
            "_+_" => a + b,
            "_-_" => a - b,
            "_*_" => a * b,
            "_/_" => a / b,
            _ => return Err(no_overload()),
        })),
        (Val::Text(a), Val::Text(b)) if name == "_+_" => {
            meter.bytes(a.as_str().len() + b.as_str().len())?;
            Ok(Val::text([a.as_str(), b.as_str()].concat()))
        }
        (Val::Bytes(a), Val::Bytes(b)) if name == "_+_" => {
            meter.bytes(a.len() + b.len())?;
            Ok(Val::Bytes(Rc::from([a.as_ref(), b.as_ref()].concat())))
        }
        _ => times(name, a, b),
    }
}

fn ints<'a>(name: &str, a: i64, b: i64) -> Answer<'a> {
    let result = match name {
        "_+_" => a.checked_add(b),
        "_-_" => a.checked_sub(b),
        "_*_" => a.checked_mul(b),
        "_/_" if b == 0 => return Err(Fault::new("division by zero")),
        "_%_" if b == 0 => return Err(Fault::new("modulus by zero")),
        "_/_" => a.checked_div(b),
        _ => a.checked_rem(b),
    };
    result
        .map(Val::Int)
        .ok_or_else(|| Fault::new("integer overflow"))
}

fn uints<'a>(name: &str, a: u64, b: u64) -> Answer<'a> {
    let result = match name {
        "_+_" => a.checked_add(b),
        "_-_" => a.checked_sub(b),
        "_*_" => a.checked_mul(b),
        "_/_" if b == 0 => return Err(Fault::new("division by zero")),
        "_%_" if b == 0 => return Err(Fault::new("modulus by zero")),
        "_/_" => a.checked_div(b),
        _ => a.checked_rem(b),
    };
    result
        .map(Val::Uint)
        .ok_or_else(|| Fault::new("unsigned integer overflow"))
}

fn times<'a>(name: &str, a: &Val<'a>, b: &Val<'a>) -> Answer<'a> {
    let moved = |time: &Time, by: Option<i64>| {
        by.and_then(|by| time.plus(by))
            .map(Val::Time)
            .ok_or_else(|| Fault::new("timestamp overflow"))
    };
    let lasting = |nanos: Option<i64>| {
        nanos
            .map(Val::Duration)
            .ok_or_else(|| Fault::new("duration overflow"))
    };
    match (name, a, b) {
        ("_+_", Val::Duration(a), Val::Duration(b)) => lasting(a.checked_add(*b)),
        ("_-_", Val::Duration(a), Val::Duration(b)) => lasting(a.checked_sub(*b)),
        ("_+_", Val::Time(time), Val::Duration(by))
        | ("_+_", Val::Duration(by), Val::Time(time)) => moved(time, Some(*by)),
        ("_-_", Val::Time(time), Val::Duration(by)) => moved(time, by.checked_neg()),
        ("_-_", Val::Time(a), Val::Time(b)) => {
            lasting(i64::try_from(a.at.duration_since(b.at).as_nanos()).ok())
        }
        _ => Err(no_overload()),
    }
}

pub(super) fn negated<'a>(a: &Val<'a>) -> Answer<'a> {
    match a {
        Val::Int(a) => a
            .checked_neg()
            .map(Val::Int)
            .ok_or_else(|| Fault::new("integer overflow")),
        Val::Double(a) => Ok(Val::Double(-a)),
        _ => Err(no_overload()),
    }
}
