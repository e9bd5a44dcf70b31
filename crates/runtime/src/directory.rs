//! The data directory of an embedded engine: created when missing, locked by one process at a time.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Holds the lock until dropped; the operating system releases it when the process dies.
#[derive(Debug)]
pub struct LockedDirectory {
    path: PathBuf,
    _lock: File,
}

impl LockedDirectory {
    /// Creates the directory and takes its lock; the error names the process that holds it.
    pub fn acquire(path: &Path) -> Result<Self> {
        make_private_directory(path)?;
        let lock_path = path.join("lock");
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .mode(0o600)
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

/// Creates a directory with access for its owner alone. An existing directory keeps its mode; the log warns
/// where other users have access.
pub(crate) fn make_private_directory(path: &Path) -> Result<()> {
    if let Ok(found) = std::fs::metadata(path) {
        let mode = found.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            let mode = format!("{mode:o}");
            tracing::warn!(path = %path.display(), mode, "other users of this machine have access to the data directory: chmod 700 it");
        }
        return Ok(());
    }
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .with_context(|| format!("cannot make the directory {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_data_directory_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/place");
        let _held = LockedDirectory::acquire(&path).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&path.join("lock"))), (0o700, 0o600));
    }

    #[test]
    fn second_directory_lock_names_holder() {
        let dir = tempfile::tempdir().unwrap();
        let held = LockedDirectory::acquire(dir.path()).unwrap();
        let error = LockedDirectory::acquire(dir.path()).unwrap_err().to_string();
        assert!(error.contains(&std::process::id().to_string()), "{error}");
        drop(held);
        LockedDirectory::acquire(dir.path()).unwrap();
    }
}
