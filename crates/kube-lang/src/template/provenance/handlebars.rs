//! Handlebars: fields, functions of them, and the blocks that choose by `.Side` and its like.

use handlebars::Template;
use handlebars::template::{HelperTemplate, Parameter, TemplateElement};
use serde_json::{Map, Value as Json};

use super::words::{Argument, Data, MAX_DEPTH, MAX_NODES, Written, result};
use crate::template::{functions, handlebars as engine};

/// The blocks that write one of two texts.
const CHOICES: [&str; 4] = ["if", "unless", "eq", "ne"];
/// Built-in helpers of Handlebars that are functions here.
const BUILT_IN: [&str; 8] = ["eq", "ne", "gt", "lt", "and", "or", "not", "len"];

pub(super) fn written(text: &str, data: Data<'_>) -> Written {
    if engine::compile(text).is_err() {
        return Written::ANYTHING;
    }
    let Ok(template) = Template::compile(text) else {
        return Written::ANYTHING;
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
    fn template(&mut self, template: &Template) -> Written {
        if self.depth == MAX_DEPTH {
            return Written::ANYTHING;
        }
        self.depth += 1;
        let mut written = Written::TEXT;
        for element in &template.elements {
            written = written.then(self.element(element));
        }
        self.depth -= 1;
        written
    }

    fn element(&mut self, element: &TemplateElement) -> Written {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            return Written::ANYTHING;
        }
        match element {
            TemplateElement::RawString(_) | TemplateElement::Comment(_) => Written::TEXT,
            TemplateElement::Expression(expression)
            | TemplateElement::HtmlExpression(expression) => self.expression(expression),
            TemplateElement::HelperBlock(block) => self.block(block),
            _ => Written::ANYTHING,
        }
    }

    fn block(&mut self, block: &HelperTemplate) -> Written {
        let chooses = name(&block.name).is_some_and(|name| CHOICES.contains(&name));
        if !chooses || !block.hash.is_empty() || block.block_param.is_some() {
            return Written::ANYTHING;
        }
        let chosen = self.chosen(block);
        let mut read = |template: Option<&Template>| {
            template.map_or(Written::TEXT, |template| self.template(template))
        };
        let (first, second) = (block.template.as_ref(), block.inverse.as_ref());
        match chosen {
            Some(true) => read(first),
            Some(false) => read(second),
            None => read(first).or(read(second)),
        }
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

    fn expression(&self, written: &HelperTemplate) -> Written {
        if !written.hash.is_empty() {
            return Written::ANYTHING;
        }
        if written.params.is_empty() {
            return self.value(&written.name).is;
        }
        let called = written.name.as_name().filter(|_| is_function(written));
        let Some(called) = called else {
            return Written::ANYTHING;
        };
        let args: Vec<_> = written.params.iter().map(|one| self.value(one)).collect();
        result(called, &args)
    }

    fn value<'v>(&'v self, value: &'v Parameter) -> Argument<'v> {
        let unread = |is| Argument {
            is,
            text: None,
            number: None,
        };
        match value {
            Parameter::Literal(literal) => Argument {
                is: Written::TEXT,
                text: literal.as_str(),
                number: literal.as_i64(),
            },
            Parameter::Path(_) | Parameter::Name(_) => match (name(value), path(value)) {
                (Some(field), _) => match self.data.given(field) {
                    Some(text) => Argument {
                        text: Some(text),
                        ..unread(Written::TEXT)
                    },
                    None => unread(self.data.field(field)),
                },
                (None, Some(path)) => unread(self.data.path(path)),
                (None, None) => unread(Written::ANYTHING),
            },
            Parameter::Subexpression(call) => match call.as_element() {
                TemplateElement::Expression(call) => unread(self.expression(call)),
                _ => unread(Written::ANYTHING),
            },
            _ => unread(Written::ANYTHING),
        }
    }
}

/// A plain name.
fn name(of: &Parameter) -> Option<&str> {
    let name = of.as_name()?;
    let plain = |c: char| c.is_ascii_alphanumeric();
    name.chars().all(plain).then_some(name)
}

/// A path of plain names.
fn path(of: &Parameter) -> Option<&str> {
    let path = of.as_name()?;
    let plain = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric());
    path.split('.').all(plain).then_some(path)
}

fn is_function(call: &HelperTemplate) -> bool {
    let of_ours = |name: &str| functions::table().any(|entry| entry.name == name);
    let known = |name: &str| BUILT_IN.contains(&name) || of_ours(name);
    call.name.as_name().is_some_and(known)
}
