//! The budget of a task, within the limits of the operator. Pure.

use mcp_core::tool::ToolError;

/// The steps, time and money that a task may use up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Budget {
    /// Steps of one run.
    pub(crate) iterations: Option<u32>,
    /// Seconds of one run.
    pub(crate) seconds: Option<u64>,
    /// US dollars of the whole task.
    pub(crate) cost: Option<f64>,
}

/// The budget of a task whose caller says nothing, and the most that a caller may ask for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MaxBudget {
    /// Steps of one run.
    pub(crate) iterations: u32,
    /// Seconds of one run.
    pub(crate) seconds: u64,
    /// US dollars of a task; none for no limit.
    pub(crate) cost: Option<f64>,
}

impl MaxBudget {
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
        let limits = MaxBudget {
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
        let more = |iterations, seconds, cost| Budget {
            iterations: Some(iterations),
            seconds: Some(seconds),
            cost: Some(cost),
        };
        for more in [more(101, 2, 0.5), more(3, 61, 0.5), more(3, 2, 1.5)] {
            assert!(limits.apply(&more).is_err());
        }
    }
}
