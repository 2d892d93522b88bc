//! The toolset `data_tables`: n8n's own tables of rows.

mod filter;
mod rows;
mod tables;

use mcp_core::tool::Toolset;

use crate::service::N8n;

pub(crate) fn data_tables() -> Toolset<N8n> {
    Toolset::new()
        .with::<tables::ListDataTables>()
        .with::<tables::CreateDataTable>()
        .with::<tables::DeleteDataTable>()
        .with::<rows::GetDataTableRows>()
        .with::<rows::InsertDataTableRows>()
        .with::<rows::UpdateDataTableRows>()
        .with::<rows::DeleteDataTableRows>()
}
