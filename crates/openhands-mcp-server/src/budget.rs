//! The budget of a task: limits that the operator sets and callers may lower. Pure.

use std::fmt::Display;

use mcp_core::tool::ToolError;

/// The limits that a caller asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct BudgetRequest {
    pub(crate) iterations: Option<u32>,
    pub(crate) seconds: Option<u64>,
    pub(crate) cost: Option<f64>,
}

/// The limits of a task that has run before.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct TaskLimits {
    pub(crate) steps: Option<u64>,
    pub(crate) seconds: Option<u64>,
    /// US dollars.
    pub(crate) cost: Option<f64>,
}

/// The cost, time and steps of a task so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TaskUsage {
    pub(crate) steps: u64,
    /// The rest of its time; `None` without a limit.
    pub(crate) seconds_left: Option<u64>,
    /// US dollars.
    pub(crate) cost: f64,
}

/// The limits of a task. Those of the operator are the default and the maximum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Budget {
    /// Steps of the whole task.
    pub(crate) iterations: u32,
    /// Seconds of the whole task.
    pub(crate) seconds: u64,
    /// US dollars of the whole task; `None` for no limit.
    pub(crate) cost: Option<f64>,
}

impl Budget {
    /// The budget of a task; `self` is the maximum.
    ///
    /// # Errors
    /// The caller asks for more than the maximum.
    pub(crate) fn apply(&self, asked: &BudgetRequest) -> Result<Self, ToolError> {
        Ok(Self {
            iterations: at_most("max_iterations", asked.iterations, self.iterations)?,
            seconds: at_most("max_seconds", asked.seconds, self.seconds)?,
            cost: match self.cost {
                Some(max) => Some(at_most("max_cost", asked.cost, max)?),
                None => asked.cost,
            },
        })
    }
}

impl Budget {
    /// The limits for the next run of a task with these limits, with those that the caller raises; lower
    /// ones are ignored. `self` is the maximum.
    ///
    /// # Errors
    /// The caller asks for more than the maximum, or the task has used up a limit.
    pub(crate) fn continue_with(
        &self,
        old: &TaskLimits,
        raised: &BudgetRequest,
        used: &TaskUsage,
    ) -> Result<TaskLimits, ToolError> {
        let asked = self.apply(raised)?;
        let steps = raised.iterations.map(|_| asked.iterations.into());
        let steps = higher(old.steps, steps);
        let cost = higher(old.cost, raised.cost).or(self.cost);
        let seconds = higher(old.seconds, raised.seconds);
        let more = seconds
            .unwrap_or(0)
            .saturating_sub(old.seconds.unwrap_or(0));
        let left = used.seconds_left.map(|left| left.saturating_add(more));
        let (name, limit) = if let Some(cost) = cost.filter(|cost| used.cost >= *cost) {
            (
                "max_cost",
                format!("{cost} US dollars; it has cost {}", used.cost),
            )
        } else if let Some(steps) = steps.filter(|steps| used.steps >= *steps) {
            ("max_iterations", format!("{steps} steps"))
        } else if left == Some(0) {
            ("max_seconds", format!("{} seconds", seconds.unwrap_or(0)))
        } else {
            return Ok(TaskLimits {
                steps,
                seconds,
                cost,
            });
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

fn at_most<T: PartialOrd + Display>(name: &str, asked: Option<T>, max: T) -> Result<T, ToolError> {
    match asked {
        Some(asked) if asked > max => Err(ToolError::invalid_argument(format!(
            "{name} may be at most {max} on this server."
        ))),
        asked => Ok(asked.unwrap_or(max)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_can_only_lower_the_limits() {
        let (iterations, seconds) = (100, 60);
        let max = Budget {
            iterations,
            seconds,
            cost: Some(1.0),
        };
        assert_eq!(max.apply(&BudgetRequest::default()).unwrap(), max);
        let asked = |iterations, seconds, cost| BudgetRequest {
            iterations: Some(iterations),
            seconds: Some(seconds),
            cost: Some(cost),
        };
        let lower = max.apply(&asked(3, 2, 0.5)).unwrap();
        let expected = Budget {
            iterations: 3,
            seconds: 2,
            cost: Some(0.5),
        };
        assert_eq!(lower, expected);
        let limits = |steps, seconds, cost| TaskLimits {
            steps: Some(steps),
            seconds: Some(seconds),
            cost: Some(cost),
        };
        let used = |steps, left, cost| TaskUsage {
            steps,
            seconds_left: Some(left),
            cost,
        };
        let (old, nothing) = (limits(3, 2, 0.5), BudgetRequest::default());
        let more = |used| max.continue_with(&old, &nothing, &used);
        assert_eq!(more(used(2, 1, 0.4)).unwrap(), old);
        for (over, name) in [
            (used(3, 1, 0.4), "max_iterations"),
            (used(2, 0, 0.4), "max_seconds"),
            (used(2, 1, 0.5), "max_cost"),
        ] {
            let error = more(over).unwrap_err();
            assert!(error.message().contains(name), "{error}");
        }
        let raised = max.continue_with(&old, &asked(5, 9, 0.9), &used(3, 0, 0.6));
        assert_eq!(raised.unwrap(), limits(5, 9, 0.9));
        let lowered = max.continue_with(&old, &asked(1, 1, 0.1), &used(2, 1, 0.4));
        assert_eq!(lowered.unwrap(), old);
        for more in [asked(101, 2, 0.5), asked(3, 61, 0.5), asked(3, 2, 1.5)] {
            assert!(max.apply(&more).is_err());
        }
    }
}
