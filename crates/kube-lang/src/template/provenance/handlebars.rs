//! Handlebars: fields, functions of them, and the blocks that choose by `.Side` and its like.

use handlebars::Template;
use handlebars::template::{HelperTemplate, Parameter, TemplateElement};
use serde_json::{Map, Value as Json};

use super::{Data, MAX_DEPTH, MAX_NODES};
use crate::template::{functions, handlebars as engine};

/// The blocks that write one of two texts.
const CHOICES: [&str; 4] = ["if", "unless", "eq", "ne"];
/// Built-in helpers of Handlebars that are functions here.
const BUILT_IN: [&str; 8] = ["eq", "ne", "gt", "lt", "and", "or", "not", "len"];

pub(super) fn writes_only(text: &str, data: Data<'_>) -> bool {
    if engine::compile(text).is_err() {
        return false;
    }
    let Ok(template) = Template::compile(text) else {
        return false;
    };
    let mut reading = HandlebarsReader {
        data,
        left: MAX_NODES,
        depth: 0,
    };
    reading.template(&template)
}

struct HandlebarsReader<'a> {
    data: Data<'a>,
    left: usize,
    depth: usize,
}

impl HandlebarsReader<'_> {
    fn template(&mut self, template: &Template) -> bool {
        if self.depth == MAX_DEPTH {
            return false;
        }
        self.depth += 1;
        let mut elements = template.elements.iter();
        let only = elements.all(|element| self.element(element));
        self.depth -= 1;
        only
    }

    fn element(&mut self, element: &TemplateElement) -> bool {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            return false;
        }
        match element {
            TemplateElement::RawString(_) | TemplateElement::Comment(_) => true,
            TemplateElement::Expression(written) | TemplateElement::HtmlExpression(written) => {
                self.is_own(written)
            }
            TemplateElement::HelperBlock(block) => self.block(block),
            _ => false,
        }
    }

    fn block(&mut self, block: &HelperTemplate) -> bool {
        let chooses = name(&block.name).is_some_and(|name| CHOICES.contains(&name));
        if !chooses || !block.hash.is_empty() || block.block_param.is_some() {
            return false;
        }
        let (first, second) = match self.chosen(block) {
            Some(true) => (block.template.as_ref(), None),
            Some(false) => (None, block.inverse.as_ref()),
            None => (block.template.as_ref(), block.inverse.as_ref()),
        };
        let mut read = first.into_iter().chain(second);
        read.all(|template| self.template(template))
    }

    /// The outcome of a block's condition, as the engine computes it; `None` if it depends on an object.
    fn chosen(&self, block: &HelperTemplate) -> Option<bool> {
        if !block.params.iter().all(|param| self.is_given(param)) {
            return None;
        }
        let word = |word: &str| {
            let mut template = Template::default();
            let element = TemplateElement::RawString(word.to_owned());
            template.elements.push(element);
            Some(template)
        };
        let mut asked = block.clone();
        (asked.template, asked.inverse) = (word("yes"), word("no"));
        let mut template = Template::default();
        let element = TemplateElement::HelperBlock(Box::new(asked));
        template.elements.push(element);
        let given = self.data.given.iter();
        let given: Map<String, Json> = given
            .map(|(name, text)| ((*name).to_owned(), (*text).into()))
            .collect();
        match engine::render_read(template, &given.into()).ok()?.as_str() {
            "yes" => Some(true),
            "no" => Some(false),
            _ => None,
        }
    }

    /// True for a value that is known before there is an object.
    fn is_given(&self, value: &Parameter) -> bool {
        match value {
            Parameter::Literal(_) => true,
            Parameter::Path(_) | Parameter::Name(_) => {
                name(value).is_some_and(|field| self.data.given(field).is_some())
            }
            Parameter::Subexpression(call) => match call.as_element() {
                TemplateElement::Expression(call) => {
                    call.hash.is_empty()
                        && is_function(call)
                        && call.params.iter().all(|param| self.is_given(param))
                }
                _ => false,
            },
            _ => false,
        }
    }

    /// True if an expression writes only the author's text.
    fn is_own(&self, written: &HelperTemplate) -> bool {
        if !written.hash.is_empty() {
            return false;
        }
        if written.params.is_empty() {
            return self.is_own_value(&written.name);
        }
        is_function(written) && written.params.iter().all(|param| self.is_own_value(param))
    }

    fn is_own_value(&self, value: &Parameter) -> bool {
        match value {
            Parameter::Literal(_) => true,
            Parameter::Path(_) | Parameter::Name(_) => name(value).is_some_and(|field| {
                self.data.own.contains(&field) || self.data.given(field).is_some()
            }),
            Parameter::Subexpression(call) => match call.as_element() {
                TemplateElement::Expression(call) => self.is_own(call),
                _ => false,
            },
            _ => false,
        }
    }
}

/// A plain name.
fn name(of: &Parameter) -> Option<&str> {
    let name = of.as_name()?;
    let plain = |c: char| c.is_ascii_alphanumeric();
    name.chars().all(plain).then_some(name)
}

fn is_function(call: &HelperTemplate) -> bool {
    let of_ours = |name: &str| functions::table().any(|entry| entry.name == name);
    let known = |name: &str| BUILT_IN.contains(&name) || of_ours(name);
    call.name.as_name().is_some_and(known)
}
