//! Asking before something is lost.

use serde_json::{Value, json};

use super::{Call, InputRequest, ToolError, ToolErrorKind};

impl Call {
    /// Lets a destructive call go on only if its user agrees.
    ///
    /// A client that can ask its user is made to (elicitation), whatever `given` holds: a model may
    /// have filled it in. With any other client `given`, the tool's own `confirm` argument, must
    /// repeat `target`. In the modern era the call ends with the question and is run from its start
    /// again, so nothing may have been done before.
    ///
    /// `loss` is one sentence that says what will be done and lost, for the user and the model.
    ///
    /// # Errors
    /// The user declined, or `given` does not name the target; nothing was done.
    pub async fn confirm(
        &self,
        loss: &str,
        target: &str,
        given: Option<&str>,
    ) -> Result<(), ToolError> {
        if self.capabilities().elicitation {
            let schema = json!({
                "type": "object",
                "properties": {"confirm": {
                    "type": "boolean",
                    "title": format!("Go on with {target}?"),
                    "description": loss,
                }},
                "required": ["confirm"],
            });
            let answer = self
                .ask("confirm", InputRequest::elicit(loss, schema))
                .await?;
            return agreed(&answer);
        }
        match given {
            Some(given) if given == target => Ok(()),
            Some(given) => Err(ToolError::invalid_argument(format!(
                "confirm is {given:?}, but this is about {target:?}. Nothing was done."
            ))),
            None => Err(ToolError::new(
                ToolErrorKind::Forbidden,
                format!(
                    "{loss} Nothing was done yet: ask the user, then call again with \
                     confirm: {target:?}."
                ),
            )),
        }
    }
}

fn agreed(answer: &Value) -> Result<(), ToolError> {
    if answer["action"] == "accept" && answer["content"]["confirm"] == true {
        return Ok(());
    }
    Err(ToolError::new(
        ToolErrorKind::Forbidden,
        "The user did not agree. Nothing was done.",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_client_that_cannot_ask_names_the_target() {
        let call = Call::default();
        let loss = "Removes the container web and its log.";
        let error = call.confirm(loss, "web", None).await.unwrap_err();
        assert_eq!(error.kind(), ToolErrorKind::Forbidden);
        assert!(
            error.message().contains("confirm: \"web\""),
            "{}",
            error.message()
        );
        let error = call.confirm(loss, "web", Some("db")).await.unwrap_err();
        assert_eq!(error.kind(), ToolErrorKind::InvalidArgument);
        assert!(call.confirm(loss, "web", Some("web")).await.is_ok());
    }

    #[test]
    fn only_a_yes_is_one() {
        let yes = json!({"action": "accept", "content": {"confirm": true}});
        let no = json!({"action": "accept", "content": {"confirm": false}});
        assert!(agreed(&yes).is_ok());
        for answer in [
            no,
            json!({"action": "decline"}),
            json!({"action": "accept"}),
            json!({}),
        ] {
            assert!(agreed(&answer).is_err(), "{answer}");
        }
    }
}
