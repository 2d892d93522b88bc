//! The budget of a task: limits that the operator sets, the default and the maximum, and callers may lower. Pure.

use std::fmt::Display;

use mcp_core::tool::ToolError;

/// Limits that a caller asks for, or that a task has; `None` for none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Limits {
    pub(crate) steps: Option<u64>,
    pub(crate) seconds: Option<u64>,
    /// US dollars.
    pub(crate) cost: Option<f64>,
}

/// A limit that a task has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    Steps,
    Seconds,
    Cost,
}

/// The steps, time and cost that a whole task has used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Usage {
    pub(crate) steps: u64,
    pub(crate) seconds: u64,
    /// US dollars.
    pub(crate) cost: f64,
}

impl Limits {
    /// The first limit that a task with this usage has reached.
    pub(crate) fn reached(&self, used: &Usage) -> Option<Limit> {
        if self.cost.is_some_and(|max| used.cost >= max) {
            Some(Limit::Cost)
        } else if self.steps.is_some_and(|max| used.steps >= max) {
            Some(Limit::Steps)
        } else {
            let is_reached = self.seconds.is_some_and(|max| used.seconds >= max);
            is_reached.then_some(Limit::Seconds)
        }
    }

    /// The limits of a task whose caller asks for these; `self` are the default and the maximum of each.
    ///
    /// # Errors
    /// The caller asks for more than the maximum.
    pub(crate) fn apply(&self, asked: &Self) -> Result<Self, ToolError> {
        Ok(Self {
            steps: at_most("max_iterations", asked.steps, self.steps)?,
            seconds: at_most("max_seconds", asked.seconds, self.seconds)?,
            cost: at_most("max_cost", asked.cost, self.cost)?,
        })
    }

    /// The limits for the next run of a task with the limits `old`, with those that the caller raises; lower
    /// ones are ignored. `self` is the maximum.
    ///
    /// # Errors
    /// The caller asks for more than the maximum, or the task has used up a limit.
    pub(crate) fn continue_with(
        &self,
        old: &Self,
        raised: &Self,
        used: &Usage,
    ) -> Result<Self, ToolError> {
        self.apply(raised)?;
        let next = Self {
            steps: higher(old.steps, raised.steps),
            seconds: higher(old.seconds, raised.seconds),
            cost: higher(old.cost, raised.cost).or(self.cost),
        };
        let Some(limit) = next.reached(used) else {
            return Ok(next);
        };
        let text = |max: Option<u64>, unit| format!("{} {unit}", max.unwrap_or_default());
        let (name, limit) = match limit {
            Limit::Cost => {
                let max = next.cost.unwrap_or_default();
                let text = format!("{max} US dollars; it has cost {}", used.cost);
                ("max_cost", text)
            }
            Limit::Steps => ("max_iterations", text(next.steps, "steps")),
            Limit::Seconds => ("max_seconds", text(next.seconds, "seconds")),
        };
        Err(ToolError::conflict(format!(
            "The task has used up its limit {name} ({limit}), and nothing was sent to it. Give it \
             more with {name} of resume_task, or run what is left as a new task in its workspace."
        )))
    }
}

fn higher<T: PartialOrd>(old: Option<T>, raised: Option<T>) -> Option<T> {
    match (old, raised) {
        (Some(old), Some(raised)) if raised <= old => Some(old),
        (old, raised) => raised.or(old),
    }
}

fn at_most<T: PartialOrd + Display>(
    name: &str,
    asked: Option<T>,
    max: Option<T>,
) -> Result<Option<T>, ToolError> {
    match (asked, max) {
        (Some(asked), Some(max)) if asked > max => Err(ToolError::invalid_argument(format!(
            "{name} may be at most {max} on this server."
        ))),
        (asked, max) => Ok(asked.or(max)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(steps: u64, seconds: u64, cost: f64) -> Limits {
        Limits {
            steps: Some(steps),
            seconds: Some(seconds),
            cost: Some(cost),
        }
    }

    #[test]
    fn limits_are_raised_up_to_the_maximum_and_never_lowered() {
        let max = limits(100, 60, 1.0);
        let (old, raised) = (limits(3, 2, 0.5), limits(5, 9, 0.9));
        for (asked, (steps, seconds, cost), expected) in [
            (Limits::default(), (2, 1, 0.4), Ok(old)),
            (Limits::default(), (3, 1, 0.4), Err("max_iterations")),
            (Limits::default(), (2, 2, 0.4), Err("max_seconds")),
            (Limits::default(), (2, 1, 0.5), Err("max_cost")),
            (raised, (3, 2, 0.6), Ok(raised)),
            (limits(1, 1, 0.1), (2, 1, 0.4), Ok(old)),
            (limits(101, 2, 0.5), (2, 1, 0.4), Err("at most 100")),
        ] {
            let used = Usage {
                steps,
                seconds,
                cost,
            };
            match (max.continue_with(&old, &asked, &used), expected) {
                (Ok(next), Ok(expected)) => assert_eq!(next, expected),
                (Err(error), Err(part)) => assert!(error.message().contains(part), "{error}"),
                (next, expected) => panic!("{next:?} {expected:?}"),
            }
        }
    }
}
