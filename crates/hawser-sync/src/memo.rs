//! Knowing without looking closely that nothing has changed.
//!
//! A decision is a pure function of what it asked. One that came to rest stands for as long as
//! every answer has the print it had, and prints are at hand without parsing anything.

use sha2::{Digest, Sha256};

use serde_json::Value;

use kube_lang::object::Object;

use super::act::Report;
use super::decide::Question;
use super::reason::{Class, Code};

/// The fingerprint of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Print([u8; 16]);

impl Print {
    pub const ABSENT: Self = Self([0; 16]);

    /// The print of an object. What changes with every write and decides nothing is not part of
    /// it: the resourceVersion and the managedFields.
    pub fn of(object: &Object) -> Self {
        // One text in one piece: prints are made of every event and every answer.
        let mut text = Vec::with_capacity(1024);
        for (field, value) in object.root() {
            match value {
                Value::Object(all) if field == "metadata" => {
                    let kept = all.iter().filter(|(field, _)| {
                        !["resourceVersion", "managedFields"].contains(&field.as_str())
                    });
                    text.push(b'{');
                    for (field, value) in kept {
                        write(&mut text, field, value);
                    }
                    text.push(b'}');
                }
                value => write(&mut text, field, value),
            }
        }
        if object.is_fragment() {
            text.push(b'~');
        }
        let mut hash = Sha256::new();
        hash.update(&text);
        Self::cut(hash)
    }

    /// The print of a list, in any order, by the prints of its objects.
    pub fn of_all(prints: impl IntoIterator<Item = Self>) -> Self {
        let mut prints: Vec<_> = prints.into_iter().map(|print| print.0).collect();
        prints.sort_unstable();
        let mut hash = Sha256::new();
        for print in prints {
            hash.update(print);
        }
        Self::cut(hash)
    }

    fn cut(hash: Sha256) -> Self {
        let mut print = [0; 16];
        print.copy_from_slice(&hash.finalize()[..16]);
        Self(print)
    }
}

/// A field as JSON, so that no two lists of fields have the same text.
fn write(text: &mut Vec<u8>, field: &str, value: &Value) {
    let proof = "a JSON value has no keys but strings";
    serde_json::to_writer(&mut *text, field).expect(proof);
    serde_json::to_writer(&mut *text, value).expect(proof);
}

/// A cache that keeps the prints of its objects.
pub trait Prints {
    /// The print of the answer to a question; none where the answer is not known.
    fn print(&self, question: &Question) -> Option<Print>;
}

/// A pass that came to rest.
#[derive(Clone, Debug, PartialEq)]
pub struct Memo {
    /// The fingerprint of the configuration that the subject was made by.
    rules: u64,
    answers: Box<[(Question, Print)]>,
}

impl Memo {
    /// Notes a pass, if it came to rest with nothing to be tried again. Of what is gone nothing is
    /// kept: names come and go without end.
    pub fn of(report: &Report, rules: u64) -> Option<Self> {
        let settled = |outcome: &super::Outcome| outcome.reason.code.class() == Class::Settled;
        let mut outcomes = report.outcomes.iter();
        let gone = !report.outcomes.is_empty()
            && report
                .outcomes
                .iter()
                .all(|outcome| matches!(outcome.reason.code, Code::Gone | Code::NoSource));
        if gone || !outcomes.all(settled) {
            return None;
        }
        let asked = report.asked.iter().zip(&report.prints);
        let answer =
            |(question, print): (&Question, &Option<Print>)| Some((question.clone(), (*print)?));
        let answers = asked.map(answer).collect::<Option<_>>()?;
        Some(Self { rules, answers })
    }

    /// The print of one of its answers.
    pub fn answer(&self, question: &Question) -> Option<Print> {
        let mut answers = self.answers.iter();
        answers
            .find(|(asked, _)| asked == question)
            .map(|(_, print)| *print)
    }

    /// Whether another pass would find the same.
    pub fn holds(&self, rules: u64, prints: &dyn Prints) -> bool {
        let same = |(question, print): &(Question, Print)| prints.print(question) == Some(*print);
        self.rules == rules && self.answers.iter().all(same)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn print(value: serde_json::Value) -> Print {
        Print::of(&Object::new(value).unwrap())
    }

    #[test]
    fn what_changes_with_every_write_is_not_part_of_a_print() {
        let one = json!({"metadata": {"name": "a", "resourceVersion": "1"}, "spec": {"n": 1}});
        let two = json!({"metadata": {"name": "a", "resourceVersion": "2", "managedFields": []},
            "spec": {"n": 1}});
        assert_eq!(print(one), print(two));
    }

    #[test]
    fn every_other_change_gives_another_print() {
        let of = |value| print(json!({"metadata": {"name": "a"}, "spec": value}));
        assert_ne!(of(json!(1)), of(json!(1.0)));
        assert_ne!(of(json!({})), of(json!(null)));
        assert_ne!(of(json!("1")), of(json!(1)));
    }
}
