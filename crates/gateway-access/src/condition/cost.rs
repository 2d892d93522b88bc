//! An upper limit for the work of a condition, by its text and the size of the arguments.
//!
//! A condition has no loops but those over a list or a map, so its work is bounded: each part costs a
//! constant, and the bytes of the values that it works on; a loop costs its body for each element.

use cel::common::ast::{EntryExpr, Expr, LiteralValue};
use cel::{IdedExpr, Program};

use super::arguments::Arguments;
use super::patterns::Patterns;

/// The cost of a part without its values.
const PART: u64 = 100;

/// The work of an expression, and the size of its value.
#[derive(Clone, Copy, Default)]
struct Work {
    cost: u64,
    bytes: u64,
    /// Elements over which a loop can run.
    elements: u64,
}

impl Work {
    fn with(self, other: Self) -> Self {
        Self {
            cost: self.cost.saturating_add(other.cost),
            bytes: self.bytes.saturating_add(other.bytes),
            elements: self.elements.saturating_add(other.elements),
        }
    }

    /// The work of a part that works on these values.
    fn using(self) -> Self {
        let cost = self.cost.saturating_add(PART).saturating_add(self.bytes);
        Self { cost, ..self }
    }

    fn times(self, times: u64) -> Self {
        Self {
            cost: self.cost.saturating_mul(times),
            bytes: self.bytes.saturating_mul(times),
            elements: self.elements.max(1).saturating_mul(times),
        }
    }
}

/// An upper limit for the cost of a program with these arguments.
pub(super) fn estimated(program: &Program, patterns: &Patterns, arguments: &Arguments) -> u64 {
    let arguments = Work {
        cost: PART,
        bytes: arguments.bytes(),
        elements: arguments.elements(),
    };
    let mut estimate = Estimate {
        arguments,
        patterns,
        loops: Vec::new(),
    };
    estimate.work(program.expression()).cost
}

struct Estimate<'a> {
    arguments: Work,
    patterns: &'a Patterns,
    /// The variables of the loops around this part.
    loops: Vec<(&'a str, Work)>,
}

impl<'a> Estimate<'a> {
    fn work(&mut self, expression: &'a IdedExpr) -> Work {
        match &expression.expr {
            Expr::Literal(LiteralValue::String(text)) => Work {
                cost: PART,
                bytes: text.inner().len() as u64,
                elements: 1,
            },
            Expr::Unspecified | Expr::Literal(_) => Work {
                cost: PART,
                bytes: 8,
                elements: 0,
            },
            Expr::Ident(name) => self.variable(name),
            Expr::Select(select) => self.work(&select.operand).using(),
            Expr::Call(call) => {
                let parts = call.target.as_deref().into_iter().chain(&call.args);
                let all = self.all(parts).using();
                let steps = match (call.func_name.as_str(), call.args.last().map(|it| &it.expr)) {
                    ("matches", Some(Expr::Literal(LiteralValue::String(text)))) => {
                        self.patterns.get(text.inner()).map_or(0, |it| it.steps)
                    }
                    _ => 0,
                };
                let cost = all.cost.saturating_add(all.bytes.saturating_mul(steps));
                Work { cost, ..all }
            }
            Expr::List(list) => {
                let all = self.all(list.elements.iter());
                let elements = all.elements.saturating_add(list.elements.len() as u64);
                Work { elements, ..all }.using()
            }
            Expr::Map(map) => self.entries(map.entries.iter().map(|entry| &entry.expr)),
            Expr::Struct(it) => self.entries(it.entries.iter().map(|entry| &entry.expr)),
            Expr::Comprehension(each) => {
                let range = self.work(&each.iter_range);
                let start = self.work(&each.accu_init);
                let known = self.loops.len();
                let element = Work {
                    cost: PART,
                    ..range
                };
                self.loops.push((&each.iter_var, element));
                let second = each.iter_var2.iter();
                self.loops
                    .extend(second.map(|name| (name.as_str(), element)));
                // What the steps before have made is counted by their number.
                self.loops.push((&each.accu_var, Work::default()));
                let step = self.work(&each.loop_cond).with(self.work(&each.loop_step));
                self.loops.truncate(known);
                let steps = step.times(range.elements.max(1));
                let all = steps.with(start);
                let cost = all.cost.saturating_add(range.cost);
                Work { cost, ..all }.using()
            }
        }
    }

    fn all(&mut self, parts: impl Iterator<Item = &'a IdedExpr>) -> Work {
        parts.fold(Work::default(), |all, part| all.with(self.work(part)))
    }

    fn entries(&mut self, entries: impl Iterator<Item = &'a EntryExpr>) -> Work {
        let all = entries.fold(Work::default(), |all, entry| match entry {
            EntryExpr::MapEntry(entry) => all
                .with(self.work(&entry.key))
                .with(self.work(&entry.value)),
            EntryExpr::StructField(field) => all.with(self.work(&field.value)),
        });
        all.using()
    }

    fn variable(&self, name: &str) -> Work {
        let mut loops = self.loops.iter().rev();
        match loops.find(|(known, _)| *known == name) {
            Some((_, work)) => *work,
            None if name == "args" => self.arguments,
            // The name of a tool, or of a caller.
            None => Work {
                cost: PART,
                bytes: 1_024,
                elements: 64,
            },
        }
    }
}
