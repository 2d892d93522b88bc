//! Imports of the tests.

pub(super) use std::fs;

pub(super) use serde_json::{Value, json};

pub(super) use super::lab::{
    Folder, Lab, ending_late, lab, lab_with, labs, merged, of_compose, own_lab, project_labs,
    published, web_project,
};
pub(super) use super::proxy::Proxy;
pub(super) use super::stdio_session::StdioSession;
pub(super) use super::tool_calls::{Row, Use, calls_on, rows, rows_on};
pub(super) use super::{
    SERVER, asked_for, call, calls_of, confirmed, confirms, fail, filled, in_front_of, invalid,
    post, processes_with, refusal, steps, succeed, texts, with_fake,
};
pub(super) use crate::harness::{
    Response, Server, assert_contains, assert_ends_with, assert_lacks, assert_starts_with, binary,
    eventually, member_texts, real, response, wait_until,
};
