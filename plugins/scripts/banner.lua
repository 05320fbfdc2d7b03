-- Draws a header, a footer and a widget where there is a screen; elsewhere that is accepted, and told in the log.
-- Shows: what needs a screen.
kage.ui.set_header(function(width)
  return string.rep("-", width)
end)
kage.ui.set_footer(function()
  return { { text = "kaged", bold = true } }
end)
kage.register_widget{ key = "clock", render = function() return os.date("%H:%M") end }
kage.register_keybinding("ctrl+alt+k", function() return "pressed" end)
