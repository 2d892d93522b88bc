//! The tools, one file each.

pub(crate) mod executions;
mod get_workflow;
mod list_workflows;
mod run_workflow;

pub(crate) use executions::GetExecution;
pub(crate) use get_workflow::GetWorkflow;
pub(crate) use list_workflows::ListWorkflows;
pub(crate) use run_workflow::RunWorkflow;

#[cfg(test)]
mod tests {
    use mcp_core::tool::Detail;
    use mcp_serve::Product as _;
    use serde_json::Value;

    #[test]
    fn the_list_is_cheap() {
        let all: Vec<Value> = crate::N8nServer::tools()
            .definitions()
            .iter()
            .map(|tool| tool.render(Detail::Basic))
            .collect();
        let bytes = serde_json::to_string(&all).unwrap().len();
        assert!(bytes / 4 < 900, "{} tokens", bytes / 4);
    }
}
