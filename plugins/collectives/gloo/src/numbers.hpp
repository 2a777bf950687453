// The numbers by which Gloo knows connections that it waits for.
//
// They count from 0 for each device, and whoever connects first and says the number of a rank is taken for it: a
// stranger who knows Gloo could end a rank so, because Gloo throws in a thread of its own at what it does not
// understand. Ranks read each other's numbers from the store, so these may begin anywhere.
#pragma once

namespace gloo::transport {
class Device;
}

namespace cohort::gloo {

/// Lets the numbers of a TCP device begin at random, below 131,072. Does nothing for other devices, and if LibTorch's
/// Gloo has no such function any more.
void begin_anywhere(const ::gloo::transport::Device& device);

}  // namespace cohort::gloo
