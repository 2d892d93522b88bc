//! Conditions of roles on the arguments of a call, in CEL (`when`).
//!
//! * [`check`]: what a condition may be, checked when the file is read.
//! * [`names`]: the arguments that it names; [`patterns`]: those of `matches`.
//! * [`cost`]: an upper limit for the work of a condition.
//! * [`arguments`]: the arguments of a call as CEL has them.

pub(crate) mod arguments;
mod check;
mod cost;
mod names;
mod patterns;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};

use cel::{Context, Env, ExecutionError, Program, Value};
use mcp_core::server::Principal;

use self::arguments::Arguments;
use self::patterns::Patterns;

/// The standard functions and macros, but `matches`.
static ENV: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));

/// Limit for the work of one condition; about 50 ms. A usual condition takes some thousand.
const MAX_COST: u64 = 100_000_000;

/// A condition that the calls of a role must meet.
#[derive(Clone, Debug)]
pub struct Condition {
    source: String,
    program: Arc<Program>,
    patterns: Arc<Patterns>,
    /// The members of the arguments that it names.
    names: BTreeSet<String>,
    /// The role that declares it.
    pub role: Arc<str>,
    /// Its line in the file, counted from 1.
    pub line: usize,
}

/// A call that is judged.
pub struct JudgedCall<'a> {
    /// The published name of the tool.
    pub tool: &'a str,
    /// Its arguments.
    pub arguments: &'a Arguments,
    /// The caller; `None` without a token.
    pub principal: Option<&'a Principal>,
}

impl Condition {
    /// Parses a condition that `role` declares in this line.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn parse(source: String, role: Arc<str>, line: usize) -> Result<Self, String> {
        let (program, patterns) = check::parsed(&source)?;
        let names = names::names_in(program.expression());
        Ok(Self {
            source,
            program: Arc::new(program),
            patterns: Arc::new(patterns),
            names,
            role,
            line,
        })
    }

    /// The members of the arguments that it names.
    pub fn names(&self) -> &BTreeSet<String> {
        &self.names
    }

    /// True if the call meets the condition.
    ///
    /// # Errors
    /// Why that cannot be told, without a value of the arguments.
    pub fn holds(&self, call: &JudgedCall<'_>) -> Result<bool, String> {
        let arguments = call.arguments;
        arguments.check_names(&self.names)?;
        if cost::estimated(&self.program, &self.patterns, arguments) > MAX_COST {
            return Err("the arguments are too large for it".to_owned());
        }
        let mut context = Context::with_env(Arc::clone(&ENV));
        if !self.patterns.is_empty() {
            let matches = patterns::function(Arc::clone(&self.patterns));
            let added = context.add_function("matches", matches);
            added.map_err(|_| "its evaluation failed".to_owned())?;
        }
        context.add_variable_from_value("tool", call.tool);
        context.add_variable_from_value("args", arguments.value());
        context.add_variable_from_value("principal", principal(call.principal));
        let result = catch_unwind(AssertUnwindSafe(|| self.program.execute(&context)));
        match result {
            Ok(Ok(Value::Bool(holds))) => Ok(holds),
            Ok(Ok(_)) => Err("its value is not true or false".to_owned()),
            Ok(Err(error)) => Err(self.fault(&error)),
            Err(_) => Err("its evaluation failed".to_owned()),
        }
    }

    /// The error in words, without a value of the arguments.
    fn fault(&self, error: &ExecutionError) -> String {
        match error {
            ExecutionError::NoSuchKey(name) if self.names.contains(&**name) => {
                format!("the call has no {name:?}")
            }
            ExecutionError::NoSuchKey(_) => "the call does not have what it reads".to_owned(),
            ExecutionError::NoSuchOverload(error) => error.to_string(),
            ExecutionError::IndexOutOfBounds(_) => "a list is too short".to_owned(),
            ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => {
                "it divides by zero".to_owned()
            }
            _ => "a value is of another type, or out of range".to_owned(),
        }
    }
}

/// The caller as a condition has it: its name, which is empty without a token, and its claims.
fn principal(principal: Option<&Principal>) -> HashMap<&'static str, Value> {
    let name = principal.map_or("", |principal| &*principal.name);
    let claims = principal.map_or_else(Vec::new, |principal| {
        let claims = principal.claims.iter();
        claims.map(|claim| Value::from(&**claim)).collect()
    });
    HashMap::from([("name", name.into()), ("claims", claims.into())])
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: roles.{}.when", self.line, self.role)
    }
}

impl PartialEq for Condition {
    fn eq(&self, other: &Self) -> bool {
        let key = |it: &Self| (it.source.clone(), Arc::clone(&it.role), it.line);
        key(self) == key(other)
    }
}

#[cfg(test)]
mod tests;
