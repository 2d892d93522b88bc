//! Text in columns.

/// The rows with every column as wide as its widest cell; the first row is the heading.
pub(crate) fn render<const N: usize>(rows: &[[String; N]]) -> String {
    let widths: [usize; N] = std::array::from_fn(|column| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    });
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        push_row(&mut text, row, &widths);
        if index == 0 {
            let rule = widths.map(|width| "-".repeat(width));
            push_row(&mut text, &rule, &widths);
        }
    }
    text
}

fn push_row<const N: usize>(text: &mut String, row: &[String; N], widths: &[usize; N]) {
    let cells: Vec<_> = row
        .iter()
        .zip(widths)
        .map(|(cell, width)| format!("{cell:<width$}"))
        .collect();
    text.push_str(cells.join("  ").trim_end());
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_have_no_tail() {
        let rows = [["server", "state"], ["n8n-mcp-server", "online"], ["ä", ""]]
            .map(|row| row.map(str::to_owned));
        assert_eq!(
            render(&rows),
            "server          state\n--------------  ------\nn8n-mcp-server  online\nä\n"
        );
    }
}
