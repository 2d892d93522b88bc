//! What the operator lets tasks use up. Pure.

use mcp_core::tool::ToolError;

use crate::order::Budget;

/// What a task may use up where the caller says nothing, and the most that it may say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Tasks that run at once on the agent server before others wait.
    pub(crate) parallel: u32,
    /// Steps of one run.
    pub(crate) iterations: u32,
    /// Seconds of one run.
    pub(crate) seconds: u64,
    /// US dollars of a task; none for no limit.
    pub(crate) cost: Option<f64>,
}

impl Limits {
    /// The budget of a task.
    ///
    /// # Errors
    /// The caller asks for more than there is.
    pub(crate) fn apply(&self, wanted: &Budget) -> Result<Budget, ToolError> {
        let most = |name: &str, most: String| {
            Err(ToolError::invalid_argument(format!(
                "{name} may be at most {most} on this server."
            )))
        };
        if wanted
            .iterations
            .is_some_and(|wanted| wanted > self.iterations)
        {
            return most("max_iterations", self.iterations.to_string());
        }
        if wanted.seconds.is_some_and(|wanted| wanted > self.seconds) {
            return most("max_seconds", self.seconds.to_string());
        }
        if let (Some(wanted), Some(limit)) = (wanted.cost, self.cost)
            && wanted > limit
        {
            return most("max_cost", limit.to_string());
        }
        Ok(Budget {
            iterations: wanted.iterations.or(Some(self.iterations)),
            seconds: wanted.seconds.or(Some(self.seconds)),
            cost: wanted.cost.or(self.cost),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_the_callers_within_the_operators() {
        let limits = Limits {
            parallel: 9,
            iterations: 100,
            seconds: 60,
            cost: Some(1.0),
        };
        let budget = limits.apply(&Budget::default()).unwrap();
        assert_eq!(
            (budget.iterations, budget.seconds, budget.cost),
            (Some(100), Some(60), Some(1.0))
        );
        let wanted = Budget {
            iterations: Some(3),
            seconds: Some(2),
            cost: Some(0.5),
        };
        assert_eq!(limits.apply(&wanted).unwrap(), wanted);
        for more in [
            Budget {
                iterations: Some(101),
                ..wanted
            },
            Budget {
                seconds: Some(61),
                ..wanted
            },
            Budget {
                cost: Some(1.5),
                ..wanted
            },
        ] {
            assert!(limits.apply(&more).is_err());
        }
    }
}
