//! Handlebars with the same table of functions: strict, nothing escaped, no partials, no files.

use gotmpl::Value;
use handlebars::{
    Context, Handlebars, Helper, HelperDef, RenderContext, RenderError, RenderErrorReason,
    ScopedJson,
};
use serde_json::Value as Json;

use super::engine::CompileError;
use super::entry::Entry;
use super::functions;
use super::limits::Bounded;
use super::values;

const MAIN: &str = "main";

pub(super) struct HandlebarsTemplate(Handlebars<'static>);

struct HelperFunction(&'static Entry);

impl HelperDef for HelperFunction {
    fn call_inner<'reg: 'rc, 'rc>(
        &self,
        helper: &Helper<'rc>,
        _: &'reg Handlebars<'reg>,
        _: &'rc Context,
        _: &mut RenderContext<'reg, 'rc>,
    ) -> Result<ScopedJson<'rc>, RenderError> {
        let args: Vec<Value> = helper
            .params()
            .iter()
            .map(|p| values::from_json(p.value()))
            .collect();
        let answer = functions::run(self.0, &args).map_err(RenderErrorReason::Other)?;
        Ok(ScopedJson::Derived(values::to_json(&answer)))
    }
}

pub(super) fn compile(text: &str) -> Result<HandlebarsTemplate, CompileError> {
    super::structure::check_handlebars(text)?;
    let mut registry = registry();
    registry.register_template_string(MAIN, text).map_err(|e| {
        let (line, column) = e.pos().unwrap_or((1, 1));
        CompileError::at_line(text, line, column, e.reason().to_string())
    })?;
    Ok(HandlebarsTemplate(registry))
}

/// Renders a template that was read already.
pub(super) fn render_read(template: handlebars::Template, data: &Json) -> Result<String, String> {
    let mut registry = registry();
    registry.register_template(MAIN, template);
    HandlebarsTemplate(registry).render(data)
}

fn registry() -> Handlebars<'static> {
    let mut registry = Handlebars::new();
    registry.set_strict_mode(true);
    registry.register_escape_fn(handlebars::no_escape);
    for entry in functions::table() {
        // Both dialects have these; Handlebars' own take part in its blocks.
        if !["eq", "ne", "gt", "lt", "and", "or", "not", "len"].contains(&entry.name) {
            registry.register_helper(entry.name, Box::new(HelperFunction(entry)));
        }
    }
    registry
}

impl HandlebarsTemplate {
    pub(super) fn render(&self, data: &Json) -> Result<String, String> {
        let out = Writer(Bounded(String::new()));
        let mut out = out;
        self.0
            .render_to_write(MAIN, data, &mut out)
            .map_err(|e| e.to_string())?;
        Ok(out.0.0)
    }
}

struct Writer(Bounded);

impl std::io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let text = std::str::from_utf8(bytes).map_err(std::io::Error::other)?;
        std::fmt::Write::write_str(&mut self.0, text).map_err(std::io::Error::other)?;
        super::limits::spend(1).map_err(std::io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
