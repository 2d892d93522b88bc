//! Cleans and truncates texts of others for a response.

mod clean;
mod truncate;

pub use clean::{clean, is_invisible, visible};
pub use truncate::{
    Fitting, first_line, fitting, head, newest_lines, one_line, tail, truncate, truncate_list,
};
