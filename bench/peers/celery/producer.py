from app import apply
from probe import serve

serve(lambda event: apply.apply_async((event,)))
