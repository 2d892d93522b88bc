//! The archive, unpacked in a fresh folder.

use std::process::Command;

use anyhow::ensure;

use super::{Context, answers, output};
use crate::package::tar;

pub(crate) fn check(context: &Context<'_>) -> anyhow::Result<()> {
    ensure!(
        context.build.is_native(),
        "the programs are for another system"
    );
    let root = context.fresh("tar")?;
    for (product, file) in context.products.iter().zip(context.files) {
        output(
            Command::new("tar")
                .arg("-xzf")
                .arg(file)
                .arg("-C")
                .arg(&*root),
        )?;
        let folder = root.join(tar::folder(product, context.build));
        let program = folder.join(product.name);
        let mut command = Command::new(program);
        let command = command
            .arg("--stdio")
            .env("HOME", &*root)
            .current_dir(&folder);
        answers(command, product, &context.build.version)?;
        let manual = folder.join(format!("man/{}.1", product.name));
        ensure!(manual.exists(), "no manual page");
    }
    Ok(())
}
