//! Parses a condition, and checks what can be checked without a call.

use std::thread;

use cel::common::ast::{CallExpr, EntryExpr, Expr, LiteralValue};
use cel::{IdedExpr, Program};
use mcp_core::suggestion::suggestion;

use super::ENV;
use super::patterns::{Pattern, Patterns};

/// Limit for the text of a condition, in bytes.
const MAX_BYTES: usize = 2_048;

/// Limit for the nesting of a condition.
const MAX_DEPTH: usize = 64;

/// The stack of the thread that parses: the parser is recursive.
const STACK_BYTES: usize = 64 << 20;

/// The variables of a condition.
const VARIABLES: [&str; 3] = ["args", "principal", "tool"];

/// The functions of a condition, beside operators and macros.
const FUNCTIONS: [&str; 17] = [
    "bool",
    "bytes",
    "contains",
    "double",
    "dyn",
    "endsWith",
    "hasValue",
    "int",
    "matches",
    "or",
    "orValue",
    "size",
    "startsWith",
    "string",
    "type",
    "uint",
    "value",
];

/// Returns the program of a condition, and its patterns.
pub(super) fn parsed(source: &str) -> Result<(Program, Patterns), String> {
    if source.trim().is_empty() {
        return Err("must not be empty".to_owned());
    }
    if source.len() > MAX_BYTES {
        return Err(format!("must not be longer than {MAX_BYTES} bytes"));
    }
    let program = compile(source)?;
    let mut walk = Walk {
        variables: VARIABLES.iter().map(ToString::to_string).collect(),
        ..Walk::default()
    };
    walk.visit(program.expression(), 0)?;
    Ok((program, walk.patterns))
}

/// On a thread of its own: a parser that panics or needs much stack must not end the gateway.
fn compile(source: &str) -> Result<Program, String> {
    let source = source.to_owned();
    let parser = thread::Builder::new().stack_size(STACK_BYTES);
    let parser = parser.spawn(move || ENV.compile(&source));
    let program = parser.map(thread::JoinHandle::join);
    let Ok(Ok(program)) = program else {
        return Err("is not an expression of CEL".to_owned());
    };
    program.map_err(|errors| match errors.errors.first() {
        Some(error) => {
            let message = error.msg.lines().next().unwrap_or_default();
            let message: String = message.chars().take(160).collect();
            let (line, column) = error.pos;
            format!("is not an expression of CEL: {message} (its line {line}, column {column})")
        }
        None => "is not an expression of CEL".to_owned(),
    })
}

/// Checks the parts of an expression.
#[derive(Default)]
struct Walk {
    /// The variables that are known here.
    variables: Vec<String>,
    patterns: Patterns,
}

impl Walk {
    fn visit(&mut self, expression: &IdedExpr, depth: usize) -> Result<(), String> {
        if depth > MAX_DEPTH {
            return Err(format!("is nested deeper than {MAX_DEPTH} levels"));
        }
        let depth = depth + 1;
        match &expression.expr {
            Expr::Unspecified => Err("is not complete".to_owned()),
            Expr::Literal(_) => Ok(()),
            Expr::Ident(name) => self.variable(name),
            Expr::Select(select) => self.visit(&select.operand, depth),
            Expr::Call(call) => {
                let name = call.func_name.as_str();
                if name.starts_with(|first: char| first.is_ascii_alphabetic())
                    && !FUNCTIONS.contains(&name)
                {
                    let nearest = suggestion(name, FUNCTIONS.iter().copied());
                    return Err(format!("has an unknown function {name:?}{nearest}"));
                }
                if name == "matches" {
                    self.pattern(call)?;
                }
                let parts = call.target.as_deref().into_iter().chain(&call.args);
                parts
                    .into_iter()
                    .try_for_each(|part| self.visit(part, depth))
            }
            Expr::List(list) => {
                let mut elements = list.elements.iter();
                elements.try_for_each(|element| self.visit(element, depth))
            }
            Expr::Map(map) => map.entries.iter().try_for_each(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => {
                    self.visit(&entry.key, depth)?;
                    self.visit(&entry.value, depth)
                }
                EntryExpr::StructField(field) => self.visit(&field.value, depth),
            }),
            Expr::Struct(_) => Err("must not make messages".to_owned()),
            Expr::Comprehension(each) => {
                self.visit(&each.iter_range, depth)?;
                self.visit(&each.accu_init, depth)?;
                let known = self.variables.len();
                self.variables
                    .extend([each.iter_var.clone(), each.accu_var.clone()]);
                self.variables.extend(each.iter_var2.clone());
                for part in [&each.loop_cond, &each.loop_step, &each.result] {
                    self.visit(part, depth)?;
                }
                self.variables.truncate(known);
                Ok(())
            }
        }
    }

    /// Compiles the pattern of `matches`: only the operator writes patterns, never a caller.
    fn pattern(&mut self, call: &CallExpr) -> Result<(), String> {
        let Some(Expr::Literal(LiteralValue::String(text))) = call.args.last().map(|it| &it.expr)
        else {
            return Err("must have the pattern of `matches` as a text in quotes".to_owned());
        };
        let text = text.inner();
        if !self.patterns.contains_key(text) {
            let pattern = Pattern::compile(text)?;
            self.patterns.insert(text.to_owned(), pattern);
        }
        Ok(())
    }

    fn variable(&self, name: &str) -> Result<(), String> {
        // The names of types are values.
        let is_type = [
            "bool",
            "bytes",
            "double",
            "int",
            "list",
            "map",
            "null_type",
            "string",
            "type",
            "uint",
        ];
        if is_type.contains(&name) || self.variables.iter().any(|known| known == name) {
            return Ok(());
        }
        let nearest = suggestion(name, self.variables.iter().map(String::as_str));
        Err(format!("has an unknown variable {name:?}{nearest}"))
    }
}
