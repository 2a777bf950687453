// The names of plugins that the runtime chooses by itself; no other folder of it knows one.
#pragma once

namespace cohort::host {

constexpr const char* kOneDeviceStrategy = "single";
constexpr const char* kManyDevicesStrategy = "ddp";
constexpr const char* kSpawningStrategy = "ddp_spawn";  ///< several devices of one node
constexpr const char* kReplicasStrategy = "dp";         ///< the same, asked for in an older spelling

constexpr const char* kGpuAccelerator = "cuda";
constexpr const char* kGpuAlias = "gpu";
constexpr const char* kFallbackAccelerator = "cpu";

/// In order of preference, where a strategy names none.
constexpr const char* kDefaultCollectives = "shm,hier,gloo";
constexpr const char* kDefaultDeviceCollectives = "nccl,shm,hier,gloo";

}  // namespace cohort::host
