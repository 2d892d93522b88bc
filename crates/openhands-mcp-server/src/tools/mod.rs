//! What callers can do, one file per tool.

mod cancel_task;
mod get_task_result;
mod get_task_status;
mod run_task;

use mcp_core::tool::Toolset;

use crate::OpenHands;

/// All tools, in the order in which they are used.
pub(crate) fn all() -> Toolset<OpenHands> {
    Toolset::new()
        .with::<run_task::RunTask>()
        .with::<get_task_status::GetTaskStatus>()
        .with::<get_task_result::GetTaskResult>()
        .with::<cancel_task::CancelTask>()
}

#[cfg(test)]
mod tests {
    use mcp_core::tool::Detail;

    #[test]
    fn the_definitions_are_cheap() {
        let definitions = super::all().definitions();
        let bytes = |detail| -> usize {
            let rendered = definitions.iter().map(|tool| tool.render(detail));
            rendered.map(|tool| tool.to_string().len()).sum()
        };
        let (inputs, all) = (bytes(Detail::Basic) / 4, bytes(Detail::Full) / 4);
        assert!(inputs < 900, "{inputs} tokens");
        assert!(all < 1800, "{all} tokens with output schemas");
    }
}
