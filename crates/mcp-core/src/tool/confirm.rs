//! Confirmation of destructive calls by the user.

use std::hash::{DefaultHasher, Hash, Hasher as _};

use serde_json::{Value, json};

use super::{Call, InputRequest, ToolError};

/// The beginning of the keys of confirmations, whose answers count only if they were asked for.
pub(crate) const CONFIRMATION: &str = "confirm-";

impl Call {
    /// Returns an error unless the user confirms a destructive call.
    ///
    /// If the client supports elicitation, the user is asked, and `given` is ignored: a model may
    /// have filled it in. With any other client `given`, the tool's own `confirm` argument, must
    /// equal `target`. In the modern era the call ends with the question and runs from its start
    /// again, so the tool must confirm before it does anything.
    ///
    /// `loss` is one sentence that says what will be done and lost, for the user and the model.
    ///
    /// ```
    /// # use mcp_core::tool::{Call, ToolError};
    /// # struct Remove { name: String, confirm: Option<String> }
    /// # impl Remove {
    /// async fn call(self, call: &Call) -> Result<(), ToolError> {
    ///     let loss = format!("Removes the volume {} and its data.", self.name);
    ///     call.confirm(&loss, &self.name, self.confirm.as_deref()).await?;
    ///     // Removes it.
    ///     Ok(())
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// The user declined, or `given` does not name the target; nothing was done.
    pub async fn confirm(
        &self,
        loss: &str,
        target: &str,
        given: Option<&str>,
    ) -> Result<(), ToolError> {
        let key = format!("{CONFIRMATION}{}", checksum(&(loss, target)));
        if self.capabilities().elicitation {
            let schema = json!({
                "type": "object",
                "properties": {"confirm": {
                    "type": "boolean",
                    "title": format!("Continue with {target}?"),
                    "description": loss,
                }},
                "required": ["confirm"],
            });
            let question = InputRequest::elicit(loss, schema);
            // In the modern era an answer counts for the question with its key, and the target may have changed.
            return check(&self.ask(&key, question).await?);
        }
        // What is to be confirmed may have changed, so the value alone is never enough.
        let asks = format!(
            "{loss} Nothing was done yet: ask the user, then call again with confirm: {target:?}."
        );
        match given {
            Some(given) if given == target => Ok(()),
            Some(given) => Err(ToolError::invalid_field(
                "confirm",
                format!("is {given:?}, but this is about another state or target. {asks}"),
            )),
            None => Err(ToolError::forbidden(asks)),
        }
    }

    /// As [`Call::confirm`], for a call of which the target does not say all that is lost: the answer counts for this
    /// `loss` and these `facts` only (such as the objects, or the parts of a request). The value of `confirm` is the
    /// target with a checksum of both.
    ///
    /// # Errors
    /// As [`Call::confirm`].
    pub async fn confirm_facts(
        &self,
        loss: &str,
        target: &str,
        facts: &(impl Hash + Sync + ?Sized),
        given: Option<&str>,
    ) -> Result<(), ToolError> {
        let target = format!("{target}-{}", checksum(&(loss, facts)));
        self.confirm(loss, &target, given).await
    }
}

/// Eight characters that differ for other facts.
fn checksum(facts: &impl Hash) -> String {
    let mut hasher = DefaultHasher::new();
    facts.hash(&mut hasher);
    format!("{:08x}", hasher.finish() as u32)
}

fn check(answer: &Value) -> Result<(), ToolError> {
    let why = match answer["action"].as_str() {
        Some("accept") if answer["content"]["confirm"] == true => return Ok(()),
        // Programs without a person at them close every question, or say no to it.
        Some("cancel") => {
            "The client closed the question without an answer. Nothing was done. Only the user can confirm this, in a \
             client that shows them the question."
        }
        _ => {
            "The user, or a client without a user, did not agree. Nothing was done. Only the user can confirm this."
        }
    };
    Err(ToolError::forbidden(why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::ToolErrorKind;

    #[tokio::test]
    async fn client_without_elicitation_names_the_target() {
        let call = Call::default();
        let loss = "Removes the container web and its log.";
        let error = call.confirm(loss, "web", None).await.unwrap_err();
        assert_eq!(error.kind(), ToolErrorKind::Forbidden);
        let message = error.message();
        assert!(message.contains("confirm: \"web\""), "{message}");
        let error = call.confirm(loss, "web", Some("db")).await.unwrap_err();
        assert_eq!(error.kind(), ToolErrorKind::InvalidArgument);
        let message = error.message();
        assert!(
            message.contains(loss) && message.contains("confirm: \"web\""),
            "{message}"
        );
        assert!(call.confirm(loss, "web", Some("web")).await.is_ok());
    }

    /// The value that [`Call::confirm_facts`] asks for.
    async fn asked(loss: &str, facts: &[&str]) -> String {
        let call = Call::default();
        let error = call.confirm_facts(loss, "T", facts, None).await;
        let error = error.unwrap_err();
        let (_, value) = error.message().rsplit_once("confirm: \"").unwrap();
        value.trim_end_matches("\".").to_owned()
    }

    #[tokio::test]
    async fn agreement_counts_for_one_question_and_its_facts() {
        let call = Call::default();
        let value = asked("Deletes 1 row.", &["where 1"]).await;
        assert!(value.starts_with("T-") && value.len() == 10, "{value}");
        let given = Some(value.as_str());
        let confirm =
            async |loss, facts: &[&str], given| call.confirm_facts(loss, "T", facts, given).await;
        let agreed = confirm("Deletes 1 row.", &["where 1"], given).await;
        assert!(agreed.is_ok());
        for (loss, fact, given) in [
            ("Deletes 1 row.", "where 2", given),
            ("Deletes 39 rows.", "where 1", given),
            ("Deletes 1 row.", "where 1", Some("T")),
        ] {
            let refused = confirm(loss, &[fact], given).await;
            let message = refused.unwrap_err().to_string();
            assert!(message.contains("Nothing was done yet"), "{message}");
        }
    }

    #[test]
    fn only_an_explicit_yes_confirms() {
        let accept = |content| json!({"action": "accept", "content": content});
        assert!(check(&accept(json!({"confirm": true}))).is_ok());
        let declined = json!({"action": "decline"});
        let no = accept(json!({"confirm": false}));
        for answer in [no, declined, json!({"action": "accept"}), json!({})] {
            assert!(check(&answer).is_err(), "{answer}");
        }
    }
}
