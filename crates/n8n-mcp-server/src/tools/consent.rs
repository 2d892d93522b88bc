//! The agreement of a person to a call whose arguments decide what is lost.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use mcp_core::tool::{Call, ToolError};
use serde::Serialize;
use serde_json::{Value, json};
use upstream::redact::Redactor;
use upstream::text::truncate;

/// Characters of arguments in a question.
const MAX_SHOWN: usize = 1_000;

/// Permits a call once the user has agreed to the `question`. The agreement counts for this question and for what is
/// `sent`: `confirm` is the `target` with a checksum of both, and any other value is as good as none. (The deletion of
/// one object, which its id names, needs no checksum.)
pub(super) async fn consent(
    call: &Call,
    question: &str,
    target: &str,
    sent: &impl Serialize,
    confirm: Option<&str>,
) -> Result<(), ToolError> {
    let checksum = checksum([question, &json!(sent).to_string()]);
    let value = format!("{target}-{checksum}");
    let confirm = confirm.filter(|given| *given == value);
    // Where the call runs again after the answer, that counts for this question only.
    let key = format!("confirm-{checksum}");
    call.confirm_as(&key, question, &value, confirm).await
}

/// Shows the parts of a request as a question names them.
pub(super) fn shown(sent: &impl Serialize, redactor: &Redactor) -> String {
    let mut sent: Value = json!(sent);
    redactor.json(&mut sent);
    truncate(&sent.to_string(), MAX_SHOWN)
}

/// Eight characters that differ for other texts.
fn checksum(texts: [&str; 2]) -> String {
    let mut hasher = DefaultHasher::new();
    texts.hash(&mut hasher);
    format!("{:08x}", hasher.finish() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value that the tool asks for.
    async fn asked(question: &str, sent: &Value) -> String {
        let call = Call::default();
        let error = consent(&call, question, "T", sent, None).await.unwrap_err();
        let (_, value) = error.message().rsplit_once("confirm: \"").unwrap();
        value.trim_end_matches("\".").to_owned()
    }

    #[tokio::test]
    async fn agreement_counts_for_one_question_and_what_is_sent() {
        let call = Call::default();
        let (one, other) = (json!({"where": 1}), json!({"where": 2}));
        let value = asked("Deletes 1 row.", &one).await;
        assert!(value.starts_with("T-") && value.len() == 10, "{value}");
        let given = Some(value.as_str());
        let agreed = consent(&call, "Deletes 1 row.", "T", &one, given).await;
        assert!(agreed.is_ok());
        for (question, sent, given) in [
            ("Deletes 1 row.", &other, given),
            ("Deletes 39 rows.", &one, given),
            ("Deletes 1 row.", &one, Some("T")),
        ] {
            let refused = consent(&call, question, "T", sent, given).await;
            let message = refused.unwrap_err().to_string();
            assert!(message.contains("Nothing was done yet"), "{message}");
        }
    }
}
