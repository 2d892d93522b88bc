//! Confirmation of destructive calls by the user.

use serde_json::{Value, json};

use super::{Call, InputRequest, ToolError};

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
        self.confirm_as("confirm", loss, target, given).await
    }

    /// The same with a `key` for the question. In the modern era an answer counts for the question with
    /// its key, so a target that may change between two rounds belongs into the key.
    ///
    /// # Errors
    /// As [`Call::confirm`].
    pub async fn confirm_as(
        &self,
        key: &str,
        loss: &str,
        target: &str,
        given: Option<&str>,
    ) -> Result<(), ToolError> {
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
            return check(&self.ask(key, question).await?);
        }
        match given {
            Some(given) if given == target => Ok(()),
            Some(given) => Err(ToolError::invalid_field(
                "confirm",
                // What is to be confirmed may have changed, so the value alone is never enough.
                format!(
                    "is {given:?}, but this is about another state or target. {loss} Nothing was done: \
                     ask the user about this, then call again with confirm: {target:?}."
                ),
            )),
            None => Err(ToolError::forbidden(format!(
                "{loss} Nothing was done yet: ask the user, then call again with \
                 confirm: {target:?}."
            ))),
        }
    }
}

fn check(answer: &Value) -> Result<(), ToolError> {
    match answer["action"] == "accept" && answer["content"]["confirm"] == true {
        true => Ok(()),
        false => Err(ToolError::forbidden(
            "The user did not agree. Nothing was done.",
        )),
    }
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
