// How a function of the C interface calls the driver.
#pragma once

#include <exception>
#include <new>

#include "driver.hpp"

namespace fakedrv {

/// Runs `call` with the driver and its lock; returns 0, or 1 if it throws, and then keeps the text.
template <class Call>
int guarded(Call&& call) {
  Driver& driver = Driver::get();
  try {
    Driver::Lock lock(driver.mutex);
    call(driver, lock);
    return 0;
  } catch (const std::bad_alloc&) {
    return fakedrv_fail("out of memory");
  } catch (const std::exception& error) {
    return fakedrv_fail(error.what());
  }
}

}  // namespace fakedrv
