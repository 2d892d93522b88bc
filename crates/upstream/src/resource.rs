//! Makes resources from tools, so that selection, size limits, redaction and access rules are in one
//! place.

use mcp_core::resource::ResourceContents;
use mcp_core::tool::{Call, Tool, ToolError};
use serde::Serialize;

/// Calls a read tool and returns its result as the JSON content of a resource.
///
/// # Errors
/// The errors of the tool.
pub async fn from_tool<T>(
    tool: T,
    service: &T::Service,
    call: &Call,
) -> Result<ResourceContents, ToolError>
where
    T: Tool<Output: Serialize>,
{
    let answer = tool.call(service, call).await?;
    let json = serde_json::to_string(&answer).map_err(|error| {
        ToolError::upstream("The result cannot be written as JSON.").caused_by(error)
    })?;
    Ok(ResourceContents::Text(json))
}

#[cfg(test)]
mod tests {
    use mcp_core::tool::{Effect, ToolErrorKind};
    use schemars::JsonSchema;
    use serde::Deserialize;

    use super::*;

    /// Doubles.
    #[derive(Deserialize, JsonSchema)]
    struct Double {
        of: u32,
    }

    #[derive(Serialize, JsonSchema)]
    struct Doubled {
        times: u32,
    }

    impl Tool for Double {
        const NAME: &'static str = "double";
        const EFFECT: Effect = Effect::ReadOnly;
        type Service = u32;
        type Output = Doubled;

        async fn call(self, service: &u32, _: &Call) -> Result<Doubled, ToolError> {
            let times = self.of.checked_mul(*service);
            let times = times.ok_or_else(|| ToolError::not_found("There is no such number."))?;
            Ok(Doubled { times })
        }
    }

    #[tokio::test]
    async fn content_is_the_result_of_the_tool() {
        let call = Call::default();
        let contents = from_tool(Double { of: 4 }, &2, &call).await.unwrap();
        assert!(matches!(contents, ResourceContents::Text(json) if json == r#"{"times":8}"#));
        let error = from_tool(Double { of: u32::MAX }, &2, &call).await;
        assert_eq!(error.unwrap_err().kind(), ToolErrorKind::NotFound);
    }
}
