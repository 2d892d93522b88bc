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

/// The limits of a task. Those of the operator are the default and the maximum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Budget {
    /// Steps of one run.
    pub(crate) iterations: u32,
    /// Seconds of one run.
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
        for more in [asked(101, 2, 0.5), asked(3, 61, 0.5), asked(3, 2, 1.5)] {
            assert!(max.apply(&more).is_err());
        }
    }
}
