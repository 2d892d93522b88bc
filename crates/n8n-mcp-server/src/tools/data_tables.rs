//! The toolset `data_tables`: n8n's own tables of rows.

mod change;
mod filter;
mod rows;
mod tables;

use mcp_core::tool::Toolset;

use crate::service::N8n;

const MISSING: &str = "n8n has no such data table. list_data_tables shows those that it has.";

/// The tools.
pub(crate) fn data_tables() -> Toolset<N8n> {
    Toolset::new()
        .with::<tables::ListDataTables>()
        .with::<tables::CreateDataTable>()
        .with::<tables::DeleteDataTable>()
        .with::<rows::GetDataTableRows>()
        .with::<change::InsertDataTableRows>()
        .with::<change::UpdateDataTableRows>()
        .with::<change::DeleteDataTableRows>()
}
