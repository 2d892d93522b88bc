//! The end of a run, and the explanation of one that broke off. Pure.

use upstream::text::one_line;

use crate::api::RunError;

/// The event after which a run stood still.
#[derive(Debug)]
pub(crate) enum RunEnd {
    /// The run broke off.
    Error(RunError),
    /// The agent server restarted while a step was under way.
    Restart,
    /// Somebody interrupted it.
    Interrupt,
}

/// Why a run ended without being done, in words, and what to do about it.
pub(crate) fn explain(end: Option<&RunEnd>, max_iterations: Option<u32>) -> (String, &'static str) {
    match end {
        Some(RunEnd::Error(error)) => explain_error(error, max_iterations),
        Some(RunEnd::Restart) => (
            "The agent server restarted while the task was running; the step under way was lost."
                .to_owned(),
            "Read get_task_result for what was done, then resume_task to go on.",
        ),
        // A restart between two steps leaves no event.
        _ => (
            "The run ended without a reason given, most likely because the agent server \
             restarted."
                .to_owned(),
            "Read get_task_result for what was done, then resume_task to go on.",
        ),
    }
}

/// The agent server's detail of an error quotes the model provider, so its name and class are
/// all that is used.
fn explain_error(error: &RunError, max_iterations: Option<u32>) -> (String, &'static str) {
    let name = one_line(&error.code, 60);
    let class = error.classification.as_ref().map(|c| c.kind.as_str());
    match (name.as_str(), class.unwrap_or_default()) {
        ("MaxIterationsReached", _) => {
            let limit = max_iterations.map_or(String::new(), |max| format!(" of {max} steps"));
            (
                format!("The agent reached its limit{limit} before it was done ({name})."),
                "Read get_task_result; resume_task gives it as many steps again.",
            )
        }
        ("MaxBudgetReached", _) => (
            format!("The task used up its budget before it was done ({name})."),
            "Raise the budget in OpenHands, or run a smaller task.",
        ),
        (_, "auth") | ("LLMAuthenticationError", _) => (
            format!("The model provider refuses the agent's credentials ({name})."),
            "The operator has to correct the model's key in the OpenHands settings.",
        ),
        (_, "quota") => (
            format!("The account at the model provider is used up ({name})."),
            "The operator has to raise the quota or choose another model in OpenHands.",
        ),
        (_, "rate_limit") => (
            format!("The model provider limits the rate of requests ({name})."),
            "resume_task it in some minutes.",
        ),
        (_, "config") => (
            format!("The agent's model or tools are not set up correctly ({name})."),
            "The operator has to correct the OpenHands settings or the agent profile.",
        ),
        (_, "transient") => (
            format!("The model did not answer, or answered with an error ({name})."),
            "resume_task it; if it fails again, check the model in the OpenHands settings.",
        ),
        _ => (
            format!("The run broke off ({name})."),
            "resume_task it, or run it again; the agent server's log says more.",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broke_with(code: &str, class: &str) -> String {
        let error = serde_json::json!({"code": code, "classification": {"kind": class}});
        let error = serde_json::from_value(error).unwrap();
        explain(Some(&RunEnd::Error(error)), Some(500)).0
    }

    #[test]
    fn failures_are_told_apart() {
        assert_eq!(
            broke_with("MaxIterationsReached", "agent_action"),
            "The agent reached its limit of 500 steps before it was done (MaxIterationsReached)."
        );
        assert!(broke_with("LLMServiceUnavailableError", "transient").contains("model did not"));
        assert!(broke_with("LLMAuthenticationError", "").contains("credentials"));
        assert!(broke_with("LLMBadRequestError", "config").contains("set up"));
        assert!(broke_with("KeyError", "internal").contains("broke off (KeyError)"));
        let restart = explain(Some(&RunEnd::Restart), None).0;
        assert!(restart.contains("restarted while"));
        assert!(explain(None, None).0.contains("without a reason"));
    }
}
