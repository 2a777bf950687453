#include "graph/own_stream.hpp"

#include <c10/util/Exception.h>

#include "data/device_copy.hpp"

namespace cohort {

OwnStream::OwnStream(c10::Device device)
    : guard_(device.type()), before_(guard_.getStream(device)), own_(guard_.getNewStream(device)) {
  order(own_, before_);
  guard_.exchangeStream(own_);
}

OwnStream::~OwnStream() {
  try {
    guard_.exchangeStream(before_);
    order(before_, own_);
  } catch (const c10::Error&) {
    // A device that fails orders nothing any more; the training has said why.
  }
}

}  // namespace cohort
