//! The end of a run, and the explanation of one that failed. Pure.

use upstream::text::one_line;

use crate::api::events::RunError;

const RESUME_AFTER_RESTART: &str =
    "Read get_task_result for what was done, then call resume_task to continue.";

/// The event that ended a run.
#[derive(Debug)]
pub(crate) enum RunEnd {
    Error(RunError),
    /// A restart of the agent server in the middle of a step.
    Restart,
    /// An interrupt by a client.
    Interrupt,
}

/// Explains why a run ended early, and what to do about it. `max_iterations` is the limit of its steps.
pub(crate) fn explain_run_end(
    end: Option<&RunEnd>,
    max_iterations: Option<u64>,
) -> (String, &'static str) {
    let restarted = match end {
        Some(RunEnd::Error(error)) => return explain_error(error, max_iterations),
        Some(RunEnd::Restart) => {
            "The agent server restarted while the task was running; the current step was lost."
        }
        // A restart between two steps leaves no event.
        _ => "The run ended without a reason, most likely because the agent server restarted.",
    };
    (restarted.to_owned(), RESUME_AFTER_RESTART)
}

/// The agent server's detail of an error quotes the model provider, so only the code and the class of
/// the error are used.
fn explain_error(error: &RunError, max_iterations: Option<u64>) -> (String, &'static str) {
    let code = one_line(&error.code, 60);
    let class = error.classification.as_ref().map(|c| c.kind.as_str());
    let (reason, next) = match (code.as_str(), class.unwrap_or_default()) {
        ("MaxIterationsReached", _) => {
            let limit = max_iterations.map_or(String::new(), |max| format!(" of {max} steps"));
            return (
                format!("The agent reached its limit{limit} before it was done ({code})."),
                "Read get_task_result; resume_task with a higher max_iterations gives it more.",
            );
        }
        ("MaxBudgetReached", _) => (
            "The task used up its budget before it was done",
            "Raise the budget in OpenHands, or run a smaller task.",
        ),
        // Agent servers before 1.46 send no class.
        (_, "auth") | ("LLMAuthenticationError", _) => (
            "The model provider refuses the agent's credentials",
            "The operator has to correct the model's key in the OpenHands settings.",
        ),
        (_, "quota") => (
            "The account at the model provider is used up",
            "The operator has to raise the quota or choose another model in OpenHands.",
        ),
        (_, "rate_limit") | ("LLMRateLimitError", _) => (
            "The model provider limits the rate of requests",
            "Call resume_task in a few minutes.",
        ),
        (_, "config") | ("LLMBadRequestError", "") => (
            "The agent's model or tools are not set up correctly",
            "The operator has to correct the OpenHands settings or the agent profile.",
        ),
        (_, "transient") | ("LLMTimeoutError" | "LLMServiceUnavailableError", _) => (
            "The model did not answer, or answered with an error",
            "Call resume_task; if it fails again, check the model in the OpenHands settings.",
        ),
        _ => (
            "The run failed",
            "Call resume_task, or run it again; the agent server's log says more.",
        ),
    };
    (format!("{reason} ({code})."), next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason_of(code: &str, class: &str) -> String {
        let error = serde_json::json!({"code": code, "classification": {"kind": class}});
        let error = serde_json::from_value(error).unwrap();
        explain_run_end(Some(&RunEnd::Error(error)), Some(500)).0
    }

    #[test]
    fn errors_have_distinct_explanations() {
        assert_eq!(
            reason_of("MaxIterationsReached", "agent_action"),
            "The agent reached its limit of 500 steps before it was done (MaxIterationsReached)."
        );
        assert!(reason_of("LLMServiceUnavailableError", "transient").contains("model did not"));
        assert!(reason_of("LLMAuthenticationError", "").contains("credentials"));
        assert!(reason_of("LLMBadRequestError", "config").contains("set up"));
        assert!(reason_of("KeyError", "internal").contains("failed (KeyError)"));
        let restart = explain_run_end(Some(&RunEnd::Restart), None).0;
        assert!(restart.contains("restarted while"));
        assert!(explain_run_end(None, None).0.contains("without a reason"));
    }
}
