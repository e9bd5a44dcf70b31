//! The directory of an embedded engine: made when missing, held by one process at a time.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Held for as long as this lives; the operating system lets go when the process dies.
#[derive(Debug)]
pub struct HeldDirectory {
    path: PathBuf,
    _lock: File,
}

impl HeldDirectory {
    /// Make the directory and take its lock, or say who has it.
    pub fn hold(path: &Path) -> Result<Self> {
        std::fs::create_dir_all(path)
            .with_context(|| format!("cannot make the directory {}", path.display()))?;
        let lock_path = path.join("lock");
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&lock_path)
            .with_context(|| format!("cannot open {}", lock_path.display()))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let holder = std::fs::read_to_string(&lock_path).unwrap_or_default();
                bail!(
                    "{} is in use by another millstream{}; stop it, or choose another directory with --dir",
                    path.display(),
                    if holder.is_empty() { String::new() } else { format!(" (process {})", holder.trim()) }
                );
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock {}", lock_path.display()));
            }
        }
        std::fs::write(&lock_path, format!("{}\n", std::process::id()))
            .with_context(|| format!("cannot write {}", lock_path.display()))?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_holder_is_told_who_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let held = HeldDirectory::hold(dir.path()).unwrap();
        let error = HeldDirectory::hold(dir.path()).unwrap_err().to_string();
        assert!(error.contains(&std::process::id().to_string()), "{error}");
        drop(held);
        HeldDirectory::hold(dir.path()).unwrap();
    }
}
