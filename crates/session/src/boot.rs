//! Which boot of the machine this is.

use hames_protocol::BootId;

/// Names this boot of the machine, so that a process crash can be told from a power cut.
///
/// Where the kernel does not say (`/proc/sys/kernel/random/boot_id`, see random(4)), every call gives a new name: what
/// cannot be told is treated as another boot, which is the careful reading.
pub fn boot() -> BootId {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    match id.trim() {
        "" => BootId::new(uuid::Uuid::now_v7().to_string()),
        id => BootId::new(id),
    }
}
