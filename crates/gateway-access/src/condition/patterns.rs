//! The patterns of a condition (`matches`), compiled once, when it is read.

use std::collections::HashMap;
use std::sync::Arc;

use cel::ExecutionError;
use cel::extractors::This;
use regex::{Regex, RegexBuilder};
use regex_syntax::hir::{Hir, HirKind};

/// Limit for a compiled pattern, in bytes. `\w` takes 50 KB.
const MAX_COMPILED_BYTES: usize = 4 << 20;

/// Limit for [`Pattern::steps`]: an argument of 25 KB can be matched with it.
const MAX_STEPS: u64 = 4_000;

/// The patterns of a condition, by their text.
pub(super) type Patterns = HashMap<String, Pattern>;

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Pattern {
    regex: Regex,
    /// Upper limit for the work of one byte of a text.
    pub(super) steps: u64,
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub(super) fn compile(text: &str) -> Result<Self, String> {
        let fault = |error: &str| {
            let reason = error.lines().last().unwrap_or_default();
            let reason = reason.strip_prefix("error: ").unwrap_or(reason);
            format!("has an invalid pattern {text:?}: {reason}")
        };
        let parsed = regex_syntax::parse(text).map_err(|error| fault(&error.to_string()))?;
        let mut builder = RegexBuilder::new(text);
        let compiled = builder.size_limit(MAX_COMPILED_BYTES).build();
        let regex = compiled.map_err(|error| fault(&error.to_string()))?;
        let steps = positions(&parsed);
        match steps <= MAX_STEPS {
            true => Ok(Self { regex, steps }),
            false => Err(fault("its repetitions are too large")),
        }
    }
}

/// The number of characters in a pattern without repetitions: a search visits each at most once for a byte.
fn positions(pattern: &Hir) -> u64 {
    match pattern.kind() {
        HirKind::Literal(text) => text.0.len() as u64,
        HirKind::Repetition(it) => {
            let times = it.max.unwrap_or(it.min).max(1);
            positions(&it.sub).saturating_mul(times.into())
        }
        kind => {
            let parts = kind.subs().iter().map(positions);
            parts.fold(1, u64::saturating_add)
        }
    }
}

/// The function `matches` with these patterns.
pub(super) fn function(
    patterns: Arc<Patterns>,
) -> impl Fn(This<Arc<String>>, Arc<String>) -> Result<bool, ExecutionError> + Send + Sync {
    move |This(text), pattern| match patterns.get(&*pattern) {
        Some(pattern) => Ok(pattern.regex.is_match(&text)),
        None => Err(ExecutionError::function_error("matches", "unknown pattern")),
    }
}
