//! The members of the arguments that a condition names; not the texts with which it compares values.

use std::collections::BTreeSet;

use cel::IdedExpr;
use cel::common::ast::operators::{EQUALS, IN, INDEX, NOT_EQUALS, OPT_INDEX, OPT_SELECT};
use cel::common::ast::{ComprehensionExpr, EntryExpr, Expr, LiteralValue};

/// Returns the names of the members that an expression reads from `args`.
pub(super) fn names_in(expression: &IdedExpr) -> BTreeSet<String> {
    let mut walk = Walk::default();
    walk.visit(expression);
    if walk.computes_names {
        walk.names.append(&mut walk.texts);
    }
    walk.names
}

#[derive(Default)]
struct Walk<'a> {
    /// The variables of the loops around this part, and whether their values come from the arguments.
    loops: Vec<(&'a str, bool)>,
    names: BTreeSet<String>,
    /// All texts of the expression.
    texts: BTreeSet<String>,
    /// True if a name is not a text in the expression: then each text may be a part of it.
    computes_names: bool,
}

impl<'a> Walk<'a> {
    /// Returns true if the value may come from the arguments.
    fn visit(&mut self, expression: &'a IdedExpr) -> bool {
        match &expression.expr {
            Expr::Literal(LiteralValue::String(text)) => {
                self.texts.insert(text.inner().to_owned());
                false
            }
            Expr::Unspecified | Expr::Literal(_) => false,
            Expr::Ident(name) => self.of_loop(name).unwrap_or(name == "args"),
            Expr::Select(select) => {
                let from_args = self.visit(&select.operand);
                if from_args {
                    self.names.insert(select.field.clone());
                }
                from_args
            }
            Expr::Call(call) => {
                let parts = call.target.as_deref().into_iter().chain(&call.args);
                let from_args: Vec<bool> = parts.map(|part| self.visit(part)).collect();
                match (call.func_name.as_str(), call.args.as_slice()) {
                    (INDEX | OPT_INDEX | OPT_SELECT, [_, name]) if from_args[0] => self.name(name),
                    (IN, [name, _]) if from_args[1] => self.name(name),
                    (IN | EQUALS | NOT_EQUALS, [one, other]) => self.compared(one, other),
                    _ => {}
                }
                from_args.contains(&true)
            }
            Expr::List(list) => self.any(list.elements.iter()),
            Expr::Map(map) => self.entries(map.entries.iter().map(|entry| &entry.expr)),
            Expr::Struct(it) => self.entries(it.entries.iter().map(|entry| &entry.expr)),
            Expr::Comprehension(each) => self.each(each),
        }
    }

    fn each(&mut self, each: &'a ComprehensionExpr) -> bool {
        let range = self.visit(&each.iter_range);
        // It runs over names.
        self.computes_names |= matches!(&each.iter_range.expr, Expr::Ident(_)) && range;
        let start = self.visit(&each.accu_init);
        let known = self.loops.len();
        self.loops.push((&each.iter_var, range));
        let second = each.iter_var2.iter();
        self.loops.extend(second.map(|name| (name.as_str(), range)));
        self.loops.push((&each.accu_var, range || start));
        let steps = self.any([&each.loop_cond, &each.loop_step, &each.result].into_iter());
        self.loops.truncate(known);
        range || start || steps
    }

    fn entries(&mut self, entries: impl Iterator<Item = &'a EntryExpr>) -> bool {
        entries.fold(false, |known, entry| match entry {
            EntryExpr::MapEntry(entry) => self.any([&entry.key, &entry.value].into_iter()) || known,
            EntryExpr::StructField(field) => self.visit(&field.value) || known,
        })
    }

    fn any(&mut self, parts: impl Iterator<Item = &'a IdedExpr>) -> bool {
        // Each is visited: `any` of an iterator would stop at the first.
        let from_args: Vec<bool> = parts.map(|part| self.visit(part)).collect();
        from_args.contains(&true)
    }

    /// Notes the name of a member.
    fn name(&mut self, expression: &IdedExpr) {
        match &expression.expr {
            Expr::Literal(LiteralValue::String(text)) => {
                self.names.insert(text.inner().to_owned());
            }
            // A position in a list.
            Expr::Literal(_) => {}
            _ => self.computes_names = true,
        }
    }

    /// The variable of a loop over an object is a name.
    fn compared(&mut self, one: &'a IdedExpr, other: &'a IdedExpr) {
        for (variable, value) in [(one, other), (other, one)] {
            if let Expr::Ident(name) = &variable.expr
                && self.of_loop(name) == Some(true)
            {
                match &value.expr {
                    Expr::List(list) => list.elements.iter().for_each(|name| self.name(name)),
                    _ => self.name(value),
                }
            }
        }
    }

    /// Whether a variable of a loop comes from the arguments; `None` for other variables.
    fn of_loop(&self, name: &str) -> Option<bool> {
        let mut loops = self.loops.iter().rev();
        loops.find(|(known, _)| *known == name).map(|known| known.1)
    }
}
